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
#include <system_error>
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

/// The attachments of an output queue in their order, and the request that waits until the socket
/// is writable.
///
/// Thread-safety: none.
class attached_output {
 public:
  /// The bytes of quota that each waiting descriptor counts as, because descriptors are scarcer
  /// than memory.
  static constexpr std::size_t descriptor_cost = std::size_t{16} << 10;

  /// The outcome of one attempt to send.
  struct progress {
    std::error_code error = {};
    std::size_t bytes_sent = 0;
    std::size_t bytes_of_queue = 0;  // the part of `bytes_sent` that came from the queue
    bool is_sent = false;            // whether all of the first attachment was sent
  };

  attached_output(io::handle& socket, io::request::function on_room) noexcept
      : room(socket, io::direction::write, on_room) {}

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
  /// Sends as much of the first attachment, which must be due, as the kernel takes at once, and
  /// removes the attachment once all of it is sent. Descriptors are sent with bytes of `pieces`,
  /// the next bytes of the queue.
  progress send_first(io::handle& socket, io::backend& io, std::span<iovec> pieces) noexcept;

  /// Returns the number of descriptors that wait.
  std::size_t descriptor_count() const noexcept { return descriptors_; }
  /// Returns the bytes of quota that the waiting descriptors use.
  std::size_t cost() const noexcept { return descriptors_ * descriptor_cost; }

  io::readiness_request room;

 private:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  progress send_file_part(io::handle& socket, io::backend& io) noexcept;
  progress send_descriptors(io::handle& socket, io::backend& io, std::span<iovec> pieces) noexcept;

  std::deque<output_attachment> items_;
  std::size_t bytes_before_ = 0;  // the sum of bytes_before over all attachments
  std::size_t descriptors_ = 0;
};

}  // namespace gyre::net::detail
