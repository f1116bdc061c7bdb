// SPDX-License-Identifier: Apache-2.0
// first_bytes: the beginning of a connection, which tells a request of HTTP from TLS.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace gyre::tls::detail {

/// As many bytes as the header of a record has.
class first_bytes {
 public:
  /// Bytes that come next.
  void note(std::span<const std::byte> received) noexcept {
    const std::size_t count = std::min(received.size(), bytes_.size() - size_);
    if (count != 0) std::memcpy(bytes_.data() + size_, received.data(), count);
    size_ += count;
  }

  /// Whether they are the beginning of a request: of a method that HTTP has.
  [[nodiscard]] bool are_of_http() const noexcept {
    constexpr std::array<std::string_view, 9> methods{
        "GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "PATCH ", "OPTIONS ", "TRACE ", "CONNECT "};
    const std::string_view text(bytes_.data(), size_);
    return size_ == bytes_.size() && std::ranges::any_of(methods, [text](std::string_view method) {
             return text.starts_with(method.substr(0, text.size()));
           });
  }

 private:
  std::array<char, 5> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace gyre::tls::detail
