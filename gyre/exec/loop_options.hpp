// SPDX-License-Identifier: Apache-2.0
// loop_options: the settings of an event loop.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/poller.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>

namespace gyre {

/// When a posting thread makes the system call that wakes a loop.
enum class wakeup {
  /// The call is made only when the loop sleeps, so that many tasks share one call.
  coalesced,
  /// The call is made with every task, for comparison with other event loops that do this.
  per_task,
};

/// Settings of a loop, fixed when the loop is made.
struct loop_options {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// The number of waiting tasks at which try_post() refuses another. post() is never refused, but
  /// its tasks count too. Counting costs every post an atomic addition; `unlimited` does not count.
  std::size_t inbox_limit = unlimited;
  /// The most tasks of a batch, between two checks of timers and descriptors; 0 counts as 1.
  std::size_t batch = 1024;
  /// The target duration of a batch while timers or descriptors wait; after a longer batch the next
  /// one is smaller.
  duration batch_time = std::chrono::milliseconds{1};
  /// The time limit for descriptors between two checks of timers and tasks. Descriptors that were
  /// not served come first in the next turn. A function that takes longer is not interrupted.
  duration io_time = std::chrono::milliseconds{1};
  /// The time limit for heavy operations, such as steps of TLS handshakes, in one turn; at least
  /// one runs. The others wait for the next turn, in their order, so that a flood of handshakes
  /// leaves established connections their share of the loop.
  duration heavy_time = std::chrono::milliseconds{1};
  /// How long the loop polls for I/O, tasks and timers before it sleeps; zero disables polling. A
  /// message that arrives within that time finds the loop awake, which saves waking up a sleeping
  /// processor (5 to 50 us). Busy polling costs up to this much processor time per sleep, and helps
  /// only a loop that has a processor to itself. After eight busy-poll periods in vain, the loop
  /// tries again only after 8, 16 … 512 sleeps, so that an idle loop costs next to nothing.
  duration busy_poll = duration::zero();
  /// The kernel interface of the loop's sockets, pipes, files and watches; loop_metrics::io names
  /// the one in use.
  io_interface io = io_interface::automatic;
  gyre::wakeup wakeup = gyre::wakeup::coalesced;
  /// Receives exceptions of tasks, timers and watches, on the loop's thread; an exception that the
  /// function throws itself leaves run(). The default prints the exception and terminates the
  /// program.
  move_only_function<void(std::exception_ptr)> on_exception = {};
};

namespace detail {

/// Returns `options` with the defaults filled in. Throws std::invalid_argument for a negative time.
loop_options validate(loop_options options);

}  // namespace detail

}  // namespace gyre
