// SPDX-License-Identifier: Apache-2.0
// handle_flag: what a poller knows of a handle between two calls.
#pragma once

#include <poll.h>

#include <cstdint>

#include <gyre/io/request.hpp>

namespace gyre::io::detail {

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

}  // namespace gyre::io::detail
