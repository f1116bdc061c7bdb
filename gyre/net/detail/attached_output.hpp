// SPDX-License-Identifier: Apache-2.0
// attached_output: parts of files, and descriptors, at their positions in a queue of output.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/request.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace gyre::net::detail {

/// Either `left` bytes of `file`, or descriptors, which are sent with the next byte of the queue.
struct output_attachment {
  unique_fd file = {};
  ::off_t offset = 0;
  std::size_t unsent_bytes = 0;
  std::vector<unique_fd> fds = {};
  std::size_t bytes_before = 0;  // queued bytes between the previous attachment and this one

  std::size_t descriptor_count() const noexcept { return fds.size() + (file ? 1 : 0); }
};

/// The attachments of an output queue in their order, and the requests that send them.
///
/// Thread-safety: none.
class attached_output {
 public:
  /// The bytes of quota that each waiting descriptor counts as, because descriptors are scarcer
  /// than memory.
  static constexpr std::size_t descriptor_cost = std::size_t{16} << 10;

  attached_output(io::handle& socket, io::request::function on_room,
                  io::request::function on_file_part) noexcept
      : room(socket, io::direction::write, on_room), file_part_(socket, -1, 0, 0, on_file_part) {}

  /// Adds an attachment after the `queued_bytes` bytes of the queue. Throws std::bad_alloc.
  void add(output_attachment attachment, std::size_t queued_bytes);
  /// Whether the first attachment is to be sent before any byte of the queue.
  bool is_due() const noexcept { return !items_.empty() && items_.front().bytes_before == 0; }
  output_attachment& first() noexcept { return items_.front(); }
  void remove_first() noexcept {
    descriptors_ -= items_.front().descriptor_count();
    items_.pop_front();
  }
  void clear() noexcept {
    items_.clear();
    bytes_before_ = descriptors_ = 0;
  }
  /// Notes that bytes left the front of the queue, no more than next_bytes().
  void consume(std::size_t bytes) noexcept {
    if (items_.empty()) return;
    items_.front().bytes_before -= bytes;
    bytes_before_ -= bytes;
  }
  /// Returns the number of queued bytes before the next attachment; if the first one is due, before
  /// the second one.
  std::size_t next_bytes() const noexcept {
    const std::size_t index = is_due() ? 1 : 0;
    return index < items_.size() ? items_[index].bytes_before : unlimited;
  }
  /// Returns the request that sends the next part of the first attachment, a file that is due. Its
  /// outcome belongs to take_file_part().
  io::request& next_file_part() noexcept;
  /// Counts a part of the first attachment that was sent. Returns whether that was the last one,
  /// whose attachment is then removed.
  bool take_file_part(std::size_t bytes) noexcept;
  /// Tries to send the descriptors of the first attachment, which must be due, with bytes of
  /// `pieces`, the next bytes of the queue. Returns how many bytes were sent, with which the
  /// attachment is removed, or why none were.
  io::result send_descriptors(io::handle& socket, io::backend& io,
                              std::span<iovec> pieces) noexcept;

  /// Returns the number of descriptors that wait.
  std::size_t descriptor_count() const noexcept { return descriptors_; }
  /// Returns the bytes of quota that the waiting descriptors use.
  std::size_t cost() const noexcept { return descriptors_ * descriptor_cost; }

  /// Waits until the socket takes descriptors.
  io::readiness_request room;

 private:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  io::send_file_request file_part_;
  std::deque<output_attachment> items_;
  std::size_t bytes_before_ = 0;  // the sum of bytes_before over all attachments
  std::size_t descriptors_ = 0;
};

}  // namespace gyre::net::detail
