// SPDX-License-Identifier: Apache-2.0
// message_reader: reads the body of a received message, for servers and clients, without I/O.
//
//     message_reader reader;
//     errc error = reader.begin(head.framing, max_body);
//     while (reader.expects_body()) {
//       auto piece = reader.next(input, limits);  // empty: receive more, or call end_input()
//     }
//
// | event                      | head        | awaiting_continue | body              | ended       |
// |----------------------------|-------------|-------------------|-------------------|-------------|
// | begin(), body to come      | body (1)    | -                 | -                 | -           |
// | begin(), none              | ended       | -                 | -                 | -           |
// | skip_interim()             | head        | -                 | -                 | -           |
// | begin_upgraded()           | -           | -                 | -                 | body        |
// | take_continue()            | head: false | body: true        | body: false       | false       |
// | next() with bytes          | -           | body or ended     | body or ended (2) | no piece    |
// | add()                      | -           | body              | body              | -           |
// | end()                      | -           | ended             | ended             | -           |
// | end_input(), until_close   | -           | -                 | ended             | ended       |
// | end_input(), another body  | -           | ended, truncated  | ended, truncated  | ended       |
// | fail()                     | ended       | ended             | ended             | ended       |
//
// 1. awaiting_continue instead, if begin() got `awaits_continue`.
// 2. ended with the last byte of a body of known length, or the trailers of a chunked body.
#pragma once

#include <gyre/http/detail/chunked_decoder.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/io/input.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace gyre::http::detail {

/// The body of one message, and its trailers.
///
/// Complexity: copies and allocates nothing but trailers.
class message_reader {
 public:
  static constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

  reading state() const noexcept { return state_; }
  bool expects_body() const noexcept {
    return state_ == reading::body || state_ == reading::awaiting_continue;
  }

  /// Called when a whole head has come. `awaits_continue`: whether the peer sends the body only
  /// after "100 Continue". Errors: body_too_large for a body of more than `max_body` bytes; the
  /// reader then still expects the body, which has not been read.
  [[nodiscard]] errc begin(const message_framing& framing, std::uint64_t max_body,
                           bool awaits_continue = false) noexcept;
  /// Skips an interim response, whose head another head follows. Errors: unexpected_status for 101,
  /// because the client has offered no upgrade, and for more than `max_count` interim responses.
  [[nodiscard]] errc skip_interim(unsigned status, std::size_t max_count) noexcept;
  /// Called when the message has ended in an upgrade: all bytes that follow are a body.
  void begin_upgraded() noexcept;
  /// Whether the caller must send "100 Continue" now, because the peer waits for it. True once.
  [[nodiscard]] bool take_continue() noexcept;

  /// Returns the next bytes of the body, at most `max_piece` unless the body is chunked. The bytes
  /// are valid as long as the input's memory. Returns none if more input is needed, or if the body
  /// has ended. Errors: those of chunked_decoder; body_too_large for a chunked body that exceeds
  /// the limit of begin().
  [[nodiscard]] std::expected<std::span<const std::byte>, errc> next(
      io::input& input, const head_limits& limits,
      std::size_t max_piece = std::numeric_limits<std::size_t>::max());
  /// Counts bytes of a body that HTTP/2 delimits; end() follows the last of them. Errors:
  /// body_too_large for a body that exceeds the limit of begin().
  [[nodiscard]] errc add(std::size_t count) noexcept {
    if (count > remaining_bytes_) return errc::body_too_large;
    state_ = reading::body;  // the peer has not waited for "100 Continue"
    received_bytes_ += count;
    remaining_bytes_ -= count;
    return no_error;
  }
  /// Returns the number of bytes that may still come of a body that HTTP/2 delimits.
  std::uint64_t missing() const noexcept { return remaining_bytes_; }
  /// Called when a body that HTTP/2 delimits has ended. Drops the fields that a trailer section
  /// must not have, as parse_trailers() does.
  void end(const header_block& trailers);
  /// Called when the peer has ended its side. Errors: truncated, within a message.
  [[nodiscard]] errc end_input() noexcept;
  /// Ends the body with `error`, which error() returns from then on.
  void fail(errc error) noexcept {
    state_ = reading::ended;
    error_ = error;
  }

  errc error() const noexcept { return error_; }
  std::uint64_t received() const noexcept { return received_bytes_; }
  /// Returns the number of body bytes still to come; 0 if the length of the body is not known.
  std::uint64_t remaining() const noexcept {
    return kind_ == body_kind::length ? remaining_bytes_ : 0;
  }
  field_list trailers() const noexcept { return field_list(trailers_); }
  /// Prepares for the next message. Keeps allocated memory.
  void reset() noexcept;

 private:
  std::expected<std::span<const std::byte>, errc> next_of_chunks(io::input& input,
                                                                 const head_limits& limits);
  void keep_trailers();

  chunked_decoder decoder_;
  std::vector<field> trailers_;
  std::string trailer_text_;
  std::uint64_t remaining_bytes_ = 0;  // how many bytes may still come
  std::uint64_t received_bytes_ = 0;
  std::uint32_t interim_count_ = 0;
  body_kind kind_ = body_kind::none;
  reading state_ = reading::head;
  errc error_{};
};

inline errc message_reader::begin(const message_framing& framing, std::uint64_t max_body,
                                  bool awaits_continue) noexcept {
  kind_ = framing.body;
  const bool is_empty =
      kind_ == body_kind::none || (kind_ == body_kind::length && framing.length == 0);
  remaining_bytes_ = kind_ == body_kind::length ? framing.length : max_body;
  if (is_empty) {
    state_ = reading::ended;
    return no_error;
  }
  state_ = awaits_continue ? reading::awaiting_continue : reading::body;
  return remaining_bytes_ > max_body ? errc::body_too_large : no_error;
}

inline std::expected<std::span<const std::byte>, errc> message_reader::next(
    io::input& input, const head_limits& limits, std::size_t max_piece) {
  std::span<const std::byte> piece;
  if (!expects_body() || input.empty()) return piece;
  state_ = reading::body;  // the peer has not waited for "100 Continue"
  if (kind_ == body_kind::chunked) return next_of_chunks(input, limits);
  const std::uint64_t available_bytes = std::min(input.size(), max_piece);
  piece = input.take(static_cast<std::size_t>(std::min(remaining_bytes_, available_bytes)));
  received_bytes_ += piece.size();
  remaining_bytes_ -= piece.size();
  if (kind_ == body_kind::length && remaining_bytes_ == 0) state_ = reading::ended;
  return piece;
}

inline void message_reader::reset() noexcept {
  decoder_ = {};
  trailers_.clear();
  trailer_text_.clear();
  received_bytes_ = 0;
  interim_count_ = 0;
  kind_ = body_kind::none;
  state_ = reading::head;
  error_ = {};
}

}  // namespace gyre::http::detail
