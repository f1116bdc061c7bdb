// SPDX-License-Identifier: Apache-2.0
// output_queue: bytes that wait until a socket takes them, in chunks that one writev() writes.
//
//     gyre::io::output_queue waiting;
//     waiting.append(rest_that_the_socket_did_not_take);
//
//     std::array<iovec, 64> pieces;  // once it is writable again
//     const std::size_t count = waiting.gather(pieces);
//     const ssize_t written = ::writev(fd, pieces.data(), static_cast<int>(count));
//     if (written > 0) waiting.consume(static_cast<std::size_t>(written));
#pragma once

#include <gyre/io/buffer.hpp>

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::io {

/// A FIFO queue of bytes: appended at the end, sent from the front. Bytes in the queue never move,
/// so that a piece may be passed to the kernel while more bytes are appended after it. The queue
/// has no limit of its own: check size() before appending. A queue that was moved from is empty.
///
/// Thread-safety: none.
/// Errors: append() throws std::bad_alloc, and then the queue is unchanged.
/// Complexity: three words; allocates nothing while it is empty. A new chunk holds as many bytes as
/// are appended or as are in the queue already, whichever is more, but 4 KiB to 256 KiB; a longer
/// append takes several chunks.
class output_queue {
 public:
  output_queue() noexcept = default;
  output_queue(output_queue&& other) noexcept { swap(other); }
  output_queue& operator=(output_queue&& other) noexcept {
    output_queue(std::move(other)).swap(*this);
    return *this;
  }
  ~output_queue() { clear(); }

  void swap(output_queue& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
    std::swap(size_, other.size_);
  }
  friend void swap(output_queue& left, output_queue& right) noexcept { left.swap(right); }

  /// Copies bytes to the end.
  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  /// Moves the bytes of a buffer, which is then empty, to the end. Takes over the buffer's
  /// memory where that is cheaper than a copy: from 4 KiB on, if a quarter of it is in use.
  void append(buffer&& bytes);
  /// Moves all bytes of another queue to the end. O(1).
  void append(output_queue&& other) noexcept;

  /// Returns the number of bytes in the queue.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// Stores the first pieces in `pieces`, as many as fit, and returns their number. A piece is
  /// valid until it is consumed.
  [[nodiscard]] std::size_t gather(std::span<iovec> pieces) const noexcept;
  /// Drops the first `count` bytes; `count` <= size() is asserted. Frees the chunks that become
  /// empty.
  void consume(std::size_t count) noexcept;
  void clear() noexcept;

 private:
  struct chunk;

  void link(chunk& piece) noexcept;
  void drop_first() noexcept;

  chunk* first_ = nullptr;
  chunk* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace gyre::io
