// SPDX-License-Identifier: Apache-2.0
// is_http_request, plain_http_response: detect plain HTTP on a TLS port, and respond to it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace gyre::tls::detail {

/// Whether a client's first bytes begin an HTTP request. OpenSSL recognises only some methods, and
/// reports the others as a wrong version.
inline bool is_http_request(std::span<const std::byte> first_bytes) noexcept {
  constexpr std::array<std::string_view, 9> methods{
      "GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "PATCH ", "OPTIONS ", "TRACE ", "CONNECT "};
  return std::ranges::any_of(methods, [first_bytes](std::string_view method) {
    const std::size_t size = std::min(method.size(), first_bytes.size());
    return size >= 4 && std::ranges::equal(first_bytes.first(size), method.substr(0, size), {},
                                           [](std::byte byte) { return static_cast<char>(byte); });
  });
}

inline constexpr std::string_view plain_http_response =
    "HTTP/1.1 400 Bad Request\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    "Content-Length: 64\r\n"
    "Connection: close\r\n"
    "\r\n"
    "A plain HTTP request came to a port that speaks TLS. Use https.\n";

}  // namespace gyre::tls::detail
