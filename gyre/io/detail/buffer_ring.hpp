// SPDX-License-Identifier: Apache-2.0
// buffer_ring: small buffers that the kernel takes from a ring as data comes for multishot
// receives. The bytes are lent as io::received; a buffer goes back to the ring when its loan ends.
#pragma once

#include <gyre/io/received.hpp>

#include <liburing.h>

#include <cstdint>
#include <memory>

namespace gyre::io::detail {

/// The buffers of one loop: some 2 MiB of address space. Pages are allocated when data first come
/// into them.
///
/// Thread-safety: the loop's thread only.
class buffer_ring {
 public:
  /// The number of buffers: as many as may be filled between two turns of the loop. Larger messages
  /// are better received by a call into large blocks; docs/design/uring.md has the figures.
  static constexpr unsigned buffers = 256;
  /// The number of buffers in use at the beginning. The kernel takes them in turn, so each of them
  /// soon has pages of its own.
  static constexpr unsigned first_buffers = 64;
  static constexpr std::size_t bytes_each = 8192;
  static constexpr std::uint16_t group = 0;
  /// Maps the buffers. Throws std::bad_alloc.
  buffer_ring();
  buffer_ring& operator=(buffer_ring&&) = delete;
  ~buffer_ring();
  /// Gives a new ring the buffers in use that are not on loan: `first_buffers`, or more after
  /// add_buffer(). Returns 0, or errno's number.
  int provide_to(io_uring& ring) noexcept;
  /// Returns the buffer that a completion names.
  static std::uint16_t named_by(const io_uring_cqe& completion) noexcept {
    return static_cast<std::uint16_t>(completion.flags >> IORING_CQE_BUFFER_SHIFT);
  }
  /// Lends the bytes that the kernel has put into a buffer.
  received lend(std::uint16_t index, std::size_t count) noexcept;
  /// Returns a buffer to the kernel.
  void recycle(std::uint16_t index) noexcept;
  /// Adds one more buffer to the ring, unless all are in use. Called for each receive that found
  /// none.
  void add_buffer() noexcept;
  /// Whether all buffers are on loan, so that the kernel has none.
  bool exhausted() const noexcept { return lent_count_ == buffers; }
  /// A queue of received bytes, which needs only two bytes because its buffers are linked.
  class queue;

 private:
  struct buffer;

  std::byte* bytes_of(std::uint16_t index) const noexcept { return data_ + index * bytes_each; }
  buffer& begin_loan(std::uint16_t index) noexcept;
  static void give_back(receive_block& block) noexcept;

  io_uring_buf_ring* descriptors_ = nullptr;  // memory shared with the kernel
  std::byte* data_ = nullptr;
  std::unique_ptr<buffer[]> states_;
  unsigned buffer_count_ = first_buffers;  // how many buffers a ring has got
  unsigned lent_count_ = 0;
};

struct buffer_ring::buffer : receive_block {
  buffer() noexcept : receive_block(&give_back, nullptr) {}

  buffer_ring* ring = nullptr;
  // The members below describe a buffer that is in a queue.
  std::uint16_t next = 0;  // the next newer buffer; for the newest one, the oldest
  std::span<const std::byte> content;
};

class buffer_ring::queue {
 public:
  bool empty() const noexcept { return newest_index_ == none; }
  /// Appends a filled buffer. Each call for a queue must name the same ring.
  void push(buffer_ring& ring, std::uint16_t index, std::size_t count) noexcept;
  /// Lends the oldest piece; the queue must not be empty.
  received pop(buffer_ring& ring) noexcept;
  /// Copies the oldest bytes into `memory`, drops them, and returns their count.
  std::size_t read(buffer_ring& ring, std::span<std::byte> memory) noexcept;
  void clear(buffer_ring& ring) noexcept {
    while (!empty()) pop(ring);
  }

 private:
  static constexpr std::uint16_t none = buffers;

  std::uint16_t newest_index_ = none;
};

}  // namespace gyre::io::detail
