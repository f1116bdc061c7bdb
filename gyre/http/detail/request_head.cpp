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
  return std::ranges::any_of(
      own_fields, [&](std::string_view known_name) { return equals_lower(name, known_name); });
}

std::string authority_of(const client_request& request) {
  const auto host = request.fields().get("Host");
  return host ? std::string(*host) : request.url().authority();
}

template <class Add>
void add_program_fields(const http::fields& fields, const Add& add) {
  for (const auto& [name, value] : fields) {
    if (!is_own(name)) add(name, value);
  }
}

// Adds the fields that the client sends unless the program has set them.
template <class Add>
void add_client_fields(const client_request& request, const request_route& route, const Add& add) {
  const http::fields& fields = request.fields();
  const std::string_view user = request.url().user_info();
  if (!fields.contains("User-Agent")) add("User-Agent", "gyre");
  if (!fields.contains("Accept")) add("Accept", "*/*");
  if (route.accept_compressed) add("Accept-Encoding", "br, zstd, gzip");
  if (!user.empty() && !fields.contains("Authorization")) {
    add("Authorization", basic_credentials(user));
  }
  if (!route.cookies.empty()) add("Cookie", route.cookies);
  if (!route.proxy_authorization.empty()) add("Proxy-Authorization", route.proxy_authorization);
}

template <class Add>
void add_body_fields(const message_writer& body, const Add& add) {
  if (const auto length = body.content_length()) add("Content-Length", std::to_string(*length));
  if (body.state() == writing::awaiting_continue) add("Expect", "100-continue");
}

}  // namespace

bool asks_for_close(const http::fields& request) noexcept {
  return has_word(request, "Connection", "close");
}

std::string basic_credentials(std::string_view user_info) {
  std::string credentials = percent_decode(user_info).value_or(std::string(user_info));
  if (!user_info.contains(':')) credentials += ':';
  return "Basic " + gyre::detail::encode_base64(std::as_bytes(std::span(credentials)));
}

std::string make_request_head(const client_request& request, const request_route& route,
                              const message_writer& body) {
  const url& target = request.url();
  const http::fields& fields = request.fields();
  constexpr std::size_t own_bytes = 256;  // an estimate for the client's own lines
  std::string head;
  head.reserve(own_bytes + target.path().size() + target.query().size() + fields.text().size());
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.append(name).append(": ").append(value).append("\r\n");
  };
  head.append(request.method_text()).append(" ");
  if (route.absolute_form) head.append(target.scheme()).append("://").append(target.authority());
  head.append(target.target()).append(" HTTP/1.1\r\n");
  add("Host", authority_of(request));
  add_program_fields(fields, add);
  if (asks_for_close(fields)) head += "Connection: close\r\n";
  add_client_fields(request, route, add);
  if (body.is_chunked()) head += "Transfer-Encoding: chunked\r\n";
  add_body_fields(body, add);
  return head += "\r\n";
}

void add_request_head(const client_request& request, const request_route& route,
                      const message_writer& body, header_block& head) {
  const url& target = request.url();
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.add_lowered(name, value);
  };
  if (route.connect_protocol.empty()) {
    head.add(":method", request.method_text());
  } else {
    head.add(":method", "CONNECT");
    head.add(":protocol", route.connect_protocol);
  }
  head.add(":scheme", target.scheme());
  head.add(":authority", authority_of(request));
  head.add(":path", target.target());
  add_program_fields(request.fields(), add);
  add_client_fields(request, route, add);
  add_body_fields(body, add);
}

}  // namespace gyre::http::detail
