// SPDX-License-Identifier: Apache-2.0
// incoming_body: the body of a server's request, whole in memory or streamed to the handler,
// without I/O.
#pragma once

#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/message_reader.hpp>
#include <gyre/http/detail/pending_wait.hpp>
#include <gyre/http/detail/spare_buffers.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace gyre::http::detail {

/// Removes the bytes of a buffer. Frees the memory of a buffer of more than 64 KiB.
inline void clear_and_trim(io::buffer& buffer) noexcept {
  constexpr std::size_t max_kept = std::size_t{64} << 10;
  if (buffer.capacity() > max_kept) {
    buffer = io::buffer({.prepend = 0});
  } else {
    buffer.clear();
  }
}

/// The received bytes of a body that the handler has not taken: the whole body, or of a streamed
/// body as many as the window holds. The peer must wait while the window is full.
///
/// Thread-safety: the loop's thread.
class incoming_body {
 public:
  /// Called when a whole head has come. Errors: those of message_reader::begin().
  [[nodiscard]] errc begin(const message_framing& framing, bool streams_body,
                           std::uint64_t max_size, bool awaits_continue) noexcept {
    is_streamed_ = streams_body;
    return reader_.begin(framing, max_size, awaits_continue);
  }
  /// Called when the request has ended in an upgrade. With `receives`, all bytes that follow are a
  /// streamed body. Views of the earlier body stay valid.
  void begin_upgraded(bool receives);
  /// Prepares for the next request. Keeps memory that is not large.
  void reset() noexcept;

  bool is_streamed() const noexcept { return is_streamed_; }
  /// Whether bytes are still to come.
  bool expects_more() const noexcept { return reader_.expects_body(); }
  /// Whether the handler must take earlier bytes before receive() consumes more.
  bool is_full() const noexcept { return is_streamed_ && bytes_.size() >= window; }
  /// Returns the number of bytes of the body that have come.
  std::uint64_t received() const noexcept { return reader_.received(); }
  /// Returns the number of bytes that may still come.
  std::uint64_t missing() const noexcept { return reader_.missing(); }
  /// Returns the bytes that the handler has not taken.
  std::string_view text() const noexcept { return bytes_.text(); }
  field_list trailers() const noexcept { return reader_.trailers(); }
  errc error() const noexcept { return reader_.error(); }

  /// Whether the peer waits for "100 Continue".
  bool awaits_continue() const noexcept { return reader_.state() == reading::awaiting_continue; }
  /// Whether the caller must send "100 Continue" now, because the peer waits for it. True once.
  [[nodiscard]] bool take_continue() noexcept { return reader_.take_continue(); }

  /// Consumes bytes of the body. Incomplete input and a full body are no errors. Errors: those of
  /// message_reader::next().
  [[nodiscard]] errc receive(io::input& input, const head_limits& limits);
  /// Keeps bytes of a body that HTTP/2 delimits. Errors: those of message_reader::add().
  [[nodiscard]] errc append(std::span<const std::byte> bytes) {
    const errc error = reader_.add(bytes.size());
    if (error == no_error) bytes_.append(bytes);
    return error;
  }
  /// Counts bytes after an upgrade that were taken as they came.
  void skip(std::size_t count) noexcept { static_cast<void>(reader_.add(count)); }
  /// Drops the first bytes of text().
  void consume(std::size_t count) noexcept { bytes_.consume(count); }
  /// Take memory for text() from the spare buffers of the thread, and leave it to them, so that
  /// connections that are mostly idle hold none.
  void take_memory() noexcept { take_spare_buffer(bytes_); }
  void leave_memory() noexcept {
    if (bytes_.empty()) keep_spare_buffer(bytes_);
  }
  /// Called when a body that HTTP/2 delimits has ended.
  void end(const header_block& trailers) { reader_.end(trailers); }
  /// Called when the peer has ended its side. Errors: truncated, within the body.
  errc end_input() noexcept;
  /// Ends the body with `error`, which the handler gets after the bytes that have come.
  void fail(errc error) noexcept;

  /// Returns the wait of the handler for bytes.
  pending_wait& arrival() noexcept { return arrival_; }
  const pending_wait& arrival() const noexcept { return arrival_; }
  /// Moves all bytes to a chunk, which is valid until release_chunk().
  std::span<const std::byte> take_chunk() noexcept {
    swap(chunk_, bytes_);
    return chunk_.bytes();
  }
  void release_chunk() noexcept { chunk_.clear(); }
  /// Returns the bytes of the current chunk.
  std::string_view chunk() const noexcept { return chunk_.text(); }

 private:
  static constexpr std::size_t window = std::size_t{64} << 10;

  message_reader reader_;
  io::buffer bytes_{{.prepend = 0}};
  io::buffer chunk_{{.prepend = 0}};
  // The body before an upgrade; null if it is empty.
  std::unique_ptr<io::buffer> body_before_upgrade_;
  pending_wait arrival_;
  bool is_streamed_ = false;
};

inline void incoming_body::reset() noexcept {
  clear_and_trim(bytes_);
  clear_and_trim(chunk_);
  body_before_upgrade_.reset();
  reader_.reset();
  is_streamed_ = false;
}

}  // namespace gyre::http::detail
