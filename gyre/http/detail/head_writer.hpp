// SPDX-License-Identifier: Apache-2.0
// head_writer: appends the head of a response to a buffer.
#pragma once

#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/http/status.hpp>
#include <gyre/io/buffer.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace gyre::http::detail {

/// The fields of a handler's response that change the fields which the server adds.
struct handler_fields {
  bool has_date = false;
  bool has_connection = false;
  bool asks_for_close = false;
  bool has_upgrade = false;  ///< an Upgrade field, or the option `upgrade` in Connection
  std::optional<std::uint64_t> content_length{};  ///< the value of Content-Length
};

/// Appends a head piece by piece. The constructor reserves the memory, so that the other members
/// only copy.
class head_writer {
 public:
  /// Reserves memory for the status line, the Date, the fields of the server, and `other_bytes` of
  /// other fields.
  head_writer(io::buffer& output, std::size_t other_bytes)
      : buffer_(output),
        begin_(reinterpret_cast<char*>(output.prepare(own_bytes + other_bytes).data())) {}

  void put(std::string_view text) noexcept {
    std::memcpy(position_, text.data(), text.size());
    position_ += text.size();
  }
  void put_number(std::uint64_t number) noexcept {
    position_ = std::to_chars(position_, position_ + 20, number).ptr;
  }
  /// Appends the status line. The phrase of an unknown status is empty.
  void put_status_line(status status_code) noexcept {
    if (status_code == status::ok) return put("HTTP/1.1 200 OK\r\n");
    put("HTTP/1.1 ");
    put_number(to_number(status_code));
    put(" ");
    put(reason_phrase(status_code));
    put("\r\n");
  }
  /// Appends the fields of a handler, except for Content-Length, Transfer-Encoding and Connection,
  /// on which the server decides.
  handler_fields put_fields(const http::fields& fields);
  void put_framing(const message_writer& body) noexcept {
    if (body.is_chunked()) {
      put("Transfer-Encoding: chunked\r\n");
    } else if (const auto length = body.content_length()) {
      put("Content-Length: ");
      put_number(*length);
      put("\r\n");
    }
  }
  /// Appends one Connection field with `own_option` ("close", "keep-alive" or none), and with the
  /// handler's connection options (RFC 9110, 7.6.1).
  void put_connection(const http::fields& fields, const handler_fields& own_fields,
                      std::string_view own_option);
  void finish() noexcept { buffer_.commit(static_cast<std::size_t>(position_ - begin_)); }

 private:
  static constexpr std::size_t own_bytes = 256;

  io::buffer& buffer_;
  char* begin_;
  char* position_ = begin_;
};

}  // namespace gyre::http::detail
