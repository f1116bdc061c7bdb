// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/request_head.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/percent_encoding.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace gyre::http::detail {
namespace {

// The fields that make_request_head() writes itself, and does not copy from the program's request.
constexpr std::array<std::string_view, 10> own_fields{
    "connection", "content-length",    "expect",          "host", "keep-alive", "te", "trailer",
    "upgrade",    "transfer-encoding", "proxy-connection"};

bool is_own(std::string_view name) noexcept {
  return std::ranges::any_of(own_fields,
                             [&](std::string_view each) { return equals_lower(name, each); });
}

}  // namespace

bool asks_for_close(const http::fields& request) noexcept {
  return has_word(request, "Connection", "close");
}

std::string basic_credentials(std::string_view user_info) {
  std::string plain = percent_decode(user_info).value_or(std::string(user_info));
  if (!user_info.contains(':')) plain += ':';
  return "Basic " + gyre::detail::encode_base64(std::as_bytes(std::span(plain)));
}

std::string make_request_head(const client_request& request, const request_route& route,
                              const message_writer& body) {
  const url& target = request.url();
  const http::fields& fields = request.fields();
  constexpr std::size_t own_bytes = 256;  // estimate for the lines that the client adds
  std::string head;
  head.reserve(own_bytes + target.path().size() + target.query().size() + fields.text().size());
  head.append(request.method_text()).append(" ");
  if (route.absolute_form) head.append(target.scheme()).append("://").append(target.authority());
  head.append(target.target()).append(" HTTP/1.1\r\nHost: ");
  const auto host = fields.get("Host");
  head.append(host ? std::string(*host) : target.authority()).append("\r\n");
  for (const auto& [name, value] : fields) {
    if (!is_own(name)) head.append(name).append(": ").append(value).append("\r\n");
  }
  if (asks_for_close(fields)) head += "Connection: close\r\n";
  if (!fields.contains("User-Agent")) head += "User-Agent: gyre\r\n";
  if (!fields.contains("Accept")) head += "Accept: */*\r\n";
  if (route.accept_compressed) head += "Accept-Encoding: br, zstd, gzip\r\n";
  if (!target.user_info().empty() && !fields.contains("Authorization")) {
    head.append("Authorization: ").append(basic_credentials(target.user_info())).append("\r\n");
  }
  if (!route.cookies.empty()) head.append("Cookie: ").append(route.cookies).append("\r\n");
  if (!route.proxy_authorization.empty()) {
    head.append("Proxy-Authorization: ").append(route.proxy_authorization).append("\r\n");
  }
  if (body.is_chunked()) head += "Transfer-Encoding: chunked\r\n";
  if (const auto length = body.content_length()) {
    head.append("Content-Length: ").append(std::to_string(*length)).append("\r\n");
  }
  if (body.state() == writing::awaiting_continue) head += "Expect: 100-continue\r\n";
  return head += "\r\n";
}

}  // namespace gyre::http::detail
