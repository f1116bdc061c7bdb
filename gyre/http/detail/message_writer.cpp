// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_writer.hpp>

#include <charconv>

namespace gyre::http::detail {

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

std::string_view message_writer::format_chunk_header(std::size_t size) noexcept {
  char* end = std::to_chars(chunk_line_.data(), chunk_line_.data() + 16, size, 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  return {chunk_line_.data(), static_cast<std::size_t>(end - chunk_line_.data())};
}

}  // namespace gyre::http::detail
