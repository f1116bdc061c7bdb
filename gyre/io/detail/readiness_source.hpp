// SPDX-License-Identifier: Apache-2.0
// readiness_source: has the kernel watch handles for ready_requests. Calls go from ready_requests
// to its source only; the poller passes on the source's reports.
#pragma once

#include <gyre/io/request.hpp>

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::io::detail {

/// The state of a handle between two calls.
enum class handle_flag : std::uint8_t {
  may_read = 1,   // nothing has said that a read would wait
  may_write = 2,  // nor a write
  // A short read is no sign that the descriptor is empty: the end is near, or there is urgent data.
  short_reads_mislead = 4,
  queued = 8,              // its requests are tried in the next turn
  awaits_memory = 16,      // all receive memory was on loan
  kernel_receives = 32,    // reads are served by readiness_source::read_early()
  trusts_short_read = 64,  // a short read is why `may_read` is missing
};

/// Notes events of poll(2).
inline void note_events(handle& ready, std::uint32_t events) noexcept {
  const std::uint32_t ended = POLLERR | POLLHUP;
  const std::uint32_t exceptional = POLLRDHUP | POLLPRI | ended;
  if (events & exceptional) ready.flags.insert(handle_flag::short_reads_mislead);
  if (events & (POLLIN | exceptional)) ready.flags.insert(handle_flag::may_read);
  if (events & (POLLOUT | ended)) ready.flags.insert(handle_flag::may_write);
}

class readiness_source {
 public:
  readiness_source() = default;
  readiness_source(const readiness_source&) = delete;
  readiness_source& operator=(const readiness_source&) = delete;

  /// Begins to watch a handle, whose index is set. Throws.
  virtual void add(handle& watched) = 0;
  /// Ends that; nothing refers to the handle any more.
  virtual void remove(handle& watched) noexcept = 0;
  /// A request has to wait until its handle is reported as ready.
  virtual void wait_for(handle& waiting, direction way) noexcept = 0;
  /// Carries out a request that reads, for a handle with handle_flag::kernel_receives; EAGAIN when
  /// nothing came.
  virtual result read_early(request& reader) noexcept = 0;

  /// Notes the count of bytes of the last call that received.
  void note_receive(std::size_t bytes) noexcept { last_receive_ = bytes; }

 protected:
  ~readiness_source() = default;
  /// Returns that count once; 0 from then on.
  std::size_t take_last_receive() noexcept { return std::exchange(last_receive_, 0); }

 private:
  std::size_t last_receive_ = 0;
};

}  // namespace gyre::io::detail
