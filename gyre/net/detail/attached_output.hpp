// SPDX-License-Identifier: Apache-2.0
// attached_output: parts of files, and descriptors, that wait between the bytes of an output queue.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/request.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <vector>

namespace gyre::net::detail {

/// Either `left` bytes of `file`, or descriptors, which go with the byte behind them.
struct output_attachment {
  unique_fd file = {};
  ::off_t offset = 0;
  std::size_t left = 0;
  std::vector<unique_fd> fds = {};
  std::size_t bytes_before = 0;  // of the queue, behind the attachment before
};

/// The attachments of an output queue in their order, and the request by which they wait until the
/// socket is writable. Not thread-safe.
class attached_output {
 public:
  /// For each descriptor that waits, in bytes of quota: a descriptor is scarcer than memory.
  static constexpr std::size_t descriptor_cost = std::size_t{16} << 10;

  attached_output(io::handle& to, io::request::function on_room) noexcept
      : room(to, io::direction::write, on_room) {}

  /// Adds one behind the `queued` bytes of the queue. Throws std::bad_alloc.
  void add(output_attachment added, std::size_t queued);
  /// Whether the first one is there, and comes before any byte of the queue.
  bool is_due() const noexcept { return !items_.empty() && items_.front().bytes_before == 0; }
  output_attachment& first() noexcept { return items_.front(); }
  void remove_first() noexcept;
  void clear() noexcept;
  /// Notes that bytes left the front of the queue, no more than next_bytes().
  void consume(std::size_t bytes) noexcept;
  /// Bytes of the queue up to the next attachment; behind the first one, if that is due.
  std::size_t next_bytes() const noexcept;
  /// How many wait.
  std::size_t descriptors() const noexcept { return descriptors_; }
  /// The quota of the descriptors that wait.
  std::size_t cost() const noexcept { return descriptors_ * descriptor_cost; }

  io::readiness_request room;

 private:
  std::deque<output_attachment> items_;
  std::size_t bytes_before_ = 0;  // of all of them
  std::size_t descriptors_ = 0;
};

/// The first `bytes` of what `pieces` name: cuts the last of them.
std::span<iovec> first_bytes(std::span<iovec> pieces, std::size_t bytes) noexcept;

}  // namespace gyre::net::detail
