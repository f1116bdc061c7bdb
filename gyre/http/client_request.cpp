// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/client_request.hpp>

#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/multipart_writer.hpp>

#include <stdexcept>
#include <system_error>

namespace gyre::http {
namespace {

url parse_url(std::string_view text) {
  auto parsed_url = url::parse(text);
  if (parsed_url) return *std::move(parsed_url);
  // The URL may contain a password, so the message leaves out the user information.
  const std::size_t position = text.find('@');
  const std::string_view reference = position == text.npos ? text : text.substr(position + 1);
  throw std::system_error(parsed_url.error(),
                          "http::client_request: " + std::string(reference.substr(0, 200)));
}

}  // namespace

client_request::client_request(http::method method, http::url url)
    : method_(method),
      is_idempotent_(http::is_idempotent(method)),
      method_text_(to_text(method)),
      url_(std::move(url)) {
  if (method == http::method::connect || method == http::method::other) {
    throw std::invalid_argument("http::client_request: needs a method other than CONNECT");
  }
  if (url_.scheme() != "http" && url_.scheme() != "https") {
    throw std::system_error(make_error_code(errc::unsupported_scheme),
                            "http::client_request: " + url_.to_string());
  }
}

client_request::client_request(http::method method, std::string_view url)
    : client_request(method, parse_url(url)) {}

client_request::client_request(std::string_view method, std::string_view url)
    : client_request(
          method_of(method) == http::method::other ? http::method::post : method_of(method),
          parse_url(url)) {
  const http::method kind = method_of(method);
  if (kind != http::method::other) return;
  if (method.empty() || method.size() > 32 || !detail::all_are(detail::in_token, method)) {
    throw std::invalid_argument("http::client_request: the method is no token");
  }
  method_ = kind;
  method_text_ = method;
}

client_request& client_request::set_body(std::string_view content_type, std::string body) & {
  if (!content_type.empty()) fields_.set("Content-Type", content_type);
  body_ = std::move(body);
  stream_ = nullptr;
  has_body_ = true;
  return *this;
}

client_request& client_request::set_form(multipart_writer form) & {
  const std::string content_type = form.content_type();
  return set_body(content_type, form.finish().take());
}

client_request& client_request::set_stream(std::string_view content_type, body_function write,
                                           std::optional<std::uint64_t> length) & {
  if (!write) throw std::invalid_argument("http::client_request::set_stream: needs a function");
  if (!content_type.empty()) fields_.set("Content-Type", content_type);
  body_.clear();
  stream_ = std::move(write);
  stream_length_ = length;
  has_body_ = true;
  return *this;
}

task<> request_body_writer::write(std::span<const std::byte> bytes) { return sink_->write(bytes); }

}  // namespace gyre::http
