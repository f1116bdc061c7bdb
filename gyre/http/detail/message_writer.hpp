// SPDX-License-Identifier: Apache-2.0
// message_writer: the framing of a message that is sent, for servers and clients, without I/O.
//
//     message_writer writer;
//     writer.begin_request(body_kind::chunked, 0, false);
//     if (writer.add(bytes.size()) != no_error) …  // more than was announced
//     output.append(writer.format_chunk_header(bytes.size())).append(bytes).append("\r\n");
//     if (writer.missing() == 0) writer.append_end(output, trailers.text());
//     writer.complete();
//
// | event                        | head     | awaiting_continue | body  | ended |
// |------------------------------|----------|-------------------|-------|-------|
// | begin_response(), has body   | body     | -                 | -     | -     |
// | begin_response(), has none   | ended    | -                 | -     | -     |
// | begin_request()              | body (1) | -                 | -     | -     |
// | begin_upgraded()             | -        | -                 | -     | body  |
// | continue_body()              | -        | body              | body  | ended |
// | add()                        | -        | -                 | body  | -     |
// | complete()                   | -        | ended             | ended | ended |
//
// 1. `awaiting_continue` with "Expect: 100-continue". A request without a body is in `body`, too,
//    until the caller has sent the head and calls complete().
#pragma once

#include <gyre/http/detail/head_scanner.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/status.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::http::detail {

/// The framing of one message, and the number of bytes of its body that were written.
class message_writer {
 public:
  /// The interim response that a client awaits before it sends a body.
  static constexpr std::string_view continue_response = "HTTP/1.1 100 Continue\r\n\r\n";

  writing state() const noexcept { return state_; }
  /// Whether the whole message was written. True directly after begin_response() if the response
  /// has no body.
  bool is_complete() const noexcept { return state_ == writing::ended; }
  bool is_chunked() const noexcept { return kind_ == body_kind::chunked; }
  /// Whether the body ends with the connection, because HTTP/1.0 has no chunks.
  bool ends_with_connection() const noexcept {
    return kind_ == body_kind::until_close && state_ == writing::body;
  }
  /// Returns the Content-Length that the head announces; nothing if it announces none.
  std::optional<std::uint64_t> content_length() const noexcept {
    if (kind_ != body_kind::length) return std::nullopt;
    return length_;
  }

  /// Determines the framing of a response. `content` is the kind of the program's body: `length`
  /// (of `length` bytes), `chunked` if its length is unknown, or `none` if a response to HEAD has
  /// neither a body nor a known length. The status, HEAD and HTTP/1.0 may demand another framing.
  void begin_response(status code, bool is_head_request, unsigned minor_version, body_kind content,
                      std::uint64_t length) noexcept;
  /// Determines the framing of a request. `content`: see begin_response().
  void begin_request(body_kind content, std::uint64_t length, bool expects_continue) noexcept;
  /// Called when the message has ended in an upgrade: bytes that are written afterwards have no
  /// framing.
  void begin_upgraded() noexcept;
  /// Called when the peer has sent "100 Continue", or is no longer waited for.
  void continue_body() noexcept {
    if (state_ == writing::awaiting_continue) state_ = writing::body;
  }

  /// Counts bytes of the body that are written. Errors: body_mismatch for more bytes than were
  /// announced, which are not counted.
  [[nodiscard]] errc add(std::uint64_t count) noexcept {
    if (kind_ == body_kind::length && count > length_ - written_bytes_) return errc::body_mismatch;
    written_bytes_ += count;
    return no_error;
  }
  /// Returns the line before a chunk of `size` bytes, valid until the next call. The caller writes
  /// "\r\n" after the chunk.
  std::string_view format_chunk_header(std::size_t size) noexcept;
  /// Called when the whole message was written. Counts all announced bytes as written.
  void complete() noexcept {
    if (kind_ == body_kind::length) written_bytes_ = length_;
    state_ = writing::ended;
  }
  /// Appends the bytes that follow the last chunk, if the body is chunked.
  template <class Output>
  void append_end(Output& output, std::string_view trailers) const {
    if (!is_chunked()) return;
    output.append("0\r\n");
    output.append(trailers);
    output.append("\r\n");
  }

  /// Prepares for the next message.
  void reset() noexcept {
    written_bytes_ = 0;
    state_ = writing::head;
  }

  std::uint64_t written() const noexcept { return written_bytes_; }
  /// Returns the number of announced bytes that were not written.
  std::uint64_t missing() const noexcept {
    return kind_ == body_kind::length ? length_ - written_bytes_ : 0;
  }

 private:
  std::uint64_t length_ = 0;  // the length of a body of kind `length`
  std::uint64_t written_bytes_ = 0;
  body_kind kind_ = body_kind::none;
  writing state_ = writing::head;
  std::array<char, 18> chunk_line_;  // NOLINT(*-member-init): written before it is read
};

inline void message_writer::begin_response(http::status code, bool is_head_request,
                                           unsigned minor_version, body_kind content,
                                           std::uint64_t length) noexcept {
  // A response with status 205 has no body, but announces the length 0 (RFC 9110, 15.3.6).
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
  const bool has_body = kind_ != body_kind::none && !is_empty && !is_head_request;
  state_ = has_body ? writing::body : writing::ended;
}

}  // namespace gyre::http::detail
