// SPDX-License-Identifier: Apache-2.0
// message_deflater, message_inflater: messages of permessage-deflate (RFC 7692, 7.2), in steps.
#pragma once

#include <gyre/io/buffer.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace gyre::http::detail {

/// Compresses messages, each of which may refer to those before it unless reset() was called.
///
/// Thread-safety: none.
class message_deflater {
 public:
  /// `window_bits`: 8 to 15. Throws std::bad_alloc.
  message_deflater(int level, unsigned window_bits);
  message_deflater(const message_deflater&) = delete;
  message_deflater& operator=(const message_deflater&) = delete;
  ~message_deflater();

  /// Appends compressed bytes of the message to `output`, at most `room` and at least 64, and
  /// removes what it has read from `input`. Returns true once the message is complete.
  bool step(std::span<const std::byte>& input, io::buffer& output, std::size_t room);
  /// Forgets earlier messages.
  void reset() noexcept;
  int level() const noexcept { return level_; }
  unsigned window_bits() const noexcept { return window_bits_; }

 private:
  struct state;
  // The size of the end of each message (00 00 FF FF), which is not sent.
  static constexpr std::size_t tail_size = 4;

  const int level_;
  const unsigned window_bits_;
  std::unique_ptr<state> state_;
  std::array<std::byte, tail_size> tail_{};  // the newest bytes, which may belong to the tail
  std::size_t held_tail_size_ = 0;
};

/// Unpacks messages, each of which may refer to those before it unless reset() was called.
///
/// Thread-safety: none.
class message_inflater {
 public:
  enum class status {
    wants_input,  ///< all of the input was read
    is_full,      ///< the output has reached its size
    failed,       ///< the input is malformed
  };

  /// `window_bits`: 8 to 15. Throws std::bad_alloc.
  explicit message_inflater(unsigned window_bits);
  message_inflater(const message_inflater&) = delete;
  message_inflater& operator=(const message_inflater&) = delete;
  ~message_inflater();

  /// Memory for the next input, whose size commit() tells. After wants_input only.
  std::span<std::byte> prepare() noexcept { return input_; }
  void commit(std::size_t count) noexcept;
  /// Adds the end of a message, which is not sent. After wants_input only.
  void end_message() noexcept;
  /// Appends unpacked bytes to `output` until its size is `max_size`. Throws std::bad_alloc.
  status step(io::buffer& output, std::size_t max_size);
  /// Whether the message has ended where its compressed data end.
  bool is_at_end() const noexcept;
  /// Forgets earlier messages.
  void reset() noexcept;
  unsigned window_bits() const noexcept { return window_bits_; }

 private:
  struct state;

  const unsigned window_bits_;
  std::unique_ptr<state> state_;
  std::array<std::byte, 1024> input_;
};

}  // namespace gyre::http::detail
