// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/wait_strategy.hpp>

#include <gyre/base/cache_line.hpp>
#include <gyre/exec/event_loop.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace gyre::detail {

// Polls only while polling has mostly found I/O, as in a loop with many busy descriptors. A loop
// that would mostly poll in vain, such as one end of a single connection, sleeps at once.
bool wait_strategy::poll_before_sleeping(event_loop& loop, bool is_watching) {
  if (!is_watching || !poll_first_.claim_attempt()) return false;
  const bool has_found_io = loop.poll_for_io();
  has_found_io ? poll_first_.succeed() : poll_first_.fail();
  return has_found_io;
}

bool wait_strategy::stay_awake(event_loop& loop, bool is_watching, steady_time deadline) {
  const bool expects_tasks = std::exchange(has_run_tasks_, false) || !is_watching;
  return (expects_tasks && spin(loop, is_watching, deadline)) ||
         poll_busily(loop, is_watching, deadline);
}

// A loop that takes each task as soon as it is posted moves the task's cache line between cores,
// and its producers wait for that line. So a batch takes only the tasks that wait when it begins,
// and a loop that has caught up waits for more tasks: for about 25 us at most, and no longer than
// producers can post without being throttled. The loop stops waiting as soon as no task has arrived
// between two looks.
std::size_t wait_strategy::choose_batch_limit(event_loop& loop) noexcept {
  constexpr int looks = 32;
  constexpr int pauses = 64;
  constexpr std::size_t min_backlog = 256;
  constexpr std::size_t target_backlog = 2048;
  std::size_t task_count = loop.inbox_pending();
  if (task_count < min_backlog && gather_.claim_attempt()) {
    bool has_new_tasks = false;
    for (int look = 0; look < looks && task_count < target_backlog && !loop.stopped(); ++look) {
      for (int pause = 0; pause < pauses; ++pause) cpu_relax();
      const std::size_t old_waiting = std::exchange(task_count, loop.inbox_pending());
      if (task_count == old_waiting) break;
      has_new_tasks = true;
    }
    has_new_tasks ? gather_.succeed() : gather_.fail();
  }
  return task_count >= min_backlog ? task_count : std::numeric_limits<std::size_t>::max();
}

// Checks for tasks until the spin budget is used up. At times the loop yields its processor to
// producers that wait for it, and polls for I/O. A CPU-bound thread may keep the processor for a
// whole time slice, so the loop reads the clock after each yield.
bool wait_strategy::spin(event_loop& loop, bool is_watching, steady_time deadline) {
  constexpr auto max_duration = std::chrono::microseconds{100};
  yields_.start_spin();
  const int looks = spin_budget_.looks();
  const steady_time give_up =
      yields_.may_yield(looks) ? std::min(deadline, loop.now() + max_duration) : deadline;
  for (int look = 1; look <= looks; ++look) {
    if (loop.has_tasks() || loop.stopped()) {
      spin_budget_.record_success(look);
      yields_.record_success(look);
      return true;
    }
    if (!yields_.must_yield(look)) {
      cpu_relax();
      continue;
    }
    if (is_watching && look > 1 && loop.poll_for_io()) {
      record_failure();
      return true;
    }
    thread_yield();
    if (loop.now() >= give_up) break;
  }
  record_failure();
  return false;
}

void wait_strategy::record_failure() noexcept {
  spin_budget_.record_failure();
  yields_.record_failure();
}

bool wait_strategy::poll_busily(event_loop& loop, bool is_watching, steady_time deadline) {
  if (busy_poll_time_ <= std::chrono::nanoseconds::zero() || !busy_poll_.claim_attempt())
    return false;
  const steady_time give_up = later(loop.now(), busy_poll_time_);
  while (!loop.has_tasks() && !loop.stopped() && !(is_watching && loop.poll_for_io())) {
    const steady_time current_time = loop.now();
    if (current_time >= deadline) break;
    if (current_time >= give_up) {
      busy_poll_.fail();
      return false;
    }
    cpu_relax();
  }
  busy_poll_.succeed();
  return true;
}

}  // namespace gyre::detail
