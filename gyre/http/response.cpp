// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/response.hpp>

#include <gyre/http/detail/byte_sink.hpp>
#include <gyre/http/detail/exchange.hpp>

#include <utility>

namespace gyre::http {

using detail::body_source;

void detail::body_source_delete::operator()(body_source* source) const noexcept { delete source; }

response::response(http::status status, std::string_view content_type, std::string body)
    : status_(status), body_(std::move(body)) {
  if (!content_type.empty()) fields_.add_to_known_name("Content-Type", content_type);
}

response response::with_known_type(http::status status, std::string_view content_type,
                                   std::string body) {
  response result(status);
  result.fields_.add_checked("Content-Type", content_type);
  result.body_ = std::move(body);
  return result;
}

response response::text(std::string body, http::status status) {
  return with_known_type(status, "text/plain; charset=utf-8", std::move(body));
}

response response::html(std::string body, http::status status) {
  return with_known_type(status, "text/html; charset=utf-8", std::move(body));
}

response response::json(std::string body, http::status status) {
  return with_known_type(status, "application/json", std::move(body));
}

response response::borrowed(std::string_view content_type, std::string_view body) {
  response result(http::status::ok, content_type, {});
  result.borrowed_body_ = body.data() != nullptr ? body : std::string_view("");
  return result;
}

response response::redirect(std::string_view location, http::status status) {
  response result(status);
  result.fields_.add("Location", location);
  return result;
}

response response::file(std::string_view content_type, unique_fd file, std::uint64_t offset,
                        std::uint64_t count) {
  response result(http::status::ok, content_type, {});
  result.source_.reset(new body_source{
      .type = body_source::kind::file, .file = std::move(file), .offset = offset, .count = count});
  return result;
}

response response::stream(std::string_view content_type,
                          move_only_function<task<>(body_writer&)> write) {
  response result(http::status::ok, content_type, {});
  result.source_.reset(
      new body_source{.type = body_source::kind::stream, .write = std::move(write)});
  return result;
}

response response::stream(std::string_view content_type, std::uint64_t length,
                          move_only_function<task<>(body_writer&)> write) {
  response result = stream(content_type, std::move(write));
  result.source_->length = length;
  return result;
}

response response::upgrade(std::string_view protocol,
                           move_only_function<task<>(upgraded_connection&)> run) {
  response result(http::status::switching_protocols);
  result.fields_.add("Upgrade", protocol);
  result.source_.reset(new body_source{.type = body_source::kind::upgrade, .run = std::move(run)});
  return result;
}

void response::set_body(std::string body) {
  body_ = std::move(body);
  borrowed_body_ = {};
  source_.reset();
}

body_writer::body_writer(detail::exchange& owner) noexcept : owner_(&owner), sink_(&owner) {}

task<> body_writer::write(std::span<const std::byte> bytes) { return sink_->write(bytes); }

inplace_stop_token body_writer::server_stop_token() const noexcept {
  return owner_->server_stop_token();
}

task<std::optional<std::span<const std::byte>>> upgraded_connection::next() {
  return owner_->next_chunk();
}

}  // namespace gyre::http
