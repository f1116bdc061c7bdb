// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_writer.hpp>

namespace gyre::http::detail {

void message_writer::begin_response(http::status code, bool answers_head, unsigned minor_version,
                                    body_kind content, std::uint64_t length) noexcept {
  // A 205 is framed, and empty (RFC 9110, 15.3.6).
  const bool is_empty = code == status::reset_content;
  kind_ = content;
  length_ = length;
  if (never_has_body(code)) {
    kind_ = body_kind::none;
  } else if (is_empty) {
    kind_ = body_kind::length;
    length_ = 0;
  } else if (content == body_kind::chunked && minor_version == 0) {
    kind_ = body_kind::until_close;
  }
  const bool has_body = kind_ != body_kind::none && !is_empty && !answers_head;
  state_ = has_body ? writing::body : writing::ended;
}

void message_writer::begin_request(body_kind content, std::uint64_t length,
                                   bool expects_continue) noexcept {
  kind_ = content;
  length_ = length;
  state_ = expects_continue ? writing::awaiting_continue : writing::body;
}

void message_writer::begin_upgraded() noexcept {
  kind_ = body_kind::until_close;
  state_ = writing::body;
}

std::string_view message_writer::open_chunk(std::size_t size) noexcept {
  char* end = std::to_chars(chunk_line_.data(), chunk_line_.data() + 16, size, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return {chunk_line_.data(), static_cast<std::size_t>(end - chunk_line_.data())};
}

}  // namespace gyre::http::detail
