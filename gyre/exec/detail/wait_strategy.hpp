// SPDX-License-Identifier: Apache-2.0
// wait_strategy: how a loop without work stays awake for a while before it sleeps.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/spin_budget.hpp>
#include <gyre/exec/detail/adaptive_attempt.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::detail {

/// Falling asleep may cost a heavy fence, and waking up far more. Each mechanism below spends a
/// little time awake where that has paid recently:
///
/// | mechanism | runs when | ends when |
/// |---|---|---|
/// | poll before sleeping | descriptors are watched and polling has found I/O | after one poll |
/// | gather | tasks come in large batches and nothing is watched | 2048 wait, 25 us, or none comes |
/// | spin | tasks have come since the last sleep, or nothing is watched | the spin budget is used up |
/// | busy poll | loop_options::busy_poll is set and has paid | its time has passed |
///
/// `Loop` is event_loop, which is complete where its turns are defined.
template <class Loop>
class basic_wait_strategy {
 public:
  explicit basic_wait_strategy(std::chrono::nanoseconds busy_poll) noexcept
      : busy_poll_time_(busy_poll) {}
  /// The most tasks of the next batch: `limit`, or those that wait if tasks come in large batches.
  std::size_t next_batch(Loop& loop, bool is_watching, std::size_t limit) noexcept {
    const bool gathers = last_batch_ >= large_batch && !is_watching;
    return gathers ? std::min(let_tasks_gather(loop), limit) : limit;
  }
  /// Records a batch of tasks that has run.
  void record_batch(std::size_t tasks) noexcept {
    last_batch_ = tasks;
    tasks_came_ = true;
  }
  /// Polls for I/O where that pays; true if there is some.
  bool poll_before_sleeping(Loop& loop, bool is_watching);
  /// Stays awake where that pays. True if there is work, or `deadline` was reached; false if the
  /// loop is to sleep.
  bool stay_awake(Loop& loop, bool is_watching, steady_time deadline);

 private:
  static constexpr std::size_t large_batch = 16;

  std::size_t let_tasks_gather(Loop& loop) noexcept;
  bool spin(Loop& loop, bool is_watching, steady_time deadline);
  bool poll_busily(Loop& loop, bool is_watching, steady_time deadline);

  const std::chrono::nanoseconds busy_poll_time_;
  spin_budget spin_budget_;
  adaptive_attempt poll_first_{0, 1};
  adaptive_attempt gather_{1, 1};
  adaptive_attempt busy_poll_{adaptive_attempt::max_credit, adaptive_attempt::max_credit};
  std::size_t last_batch_ = 0;
  bool tasks_came_ = false;  // since the last sleep
};

using wait_strategy = basic_wait_strategy<event_loop>;

// A loop whose descriptors keep it busy finds I/O; one that would mostly poll in vain, such as the
// end of a single connection, sleeps at once.
template <class Loop>
bool basic_wait_strategy<Loop>::poll_before_sleeping(Loop& loop, bool is_watching) {
  if (!is_watching || !poll_first_.is_due()) return false;
  const bool found = loop.poll_for_io();
  found ? poll_first_.succeed() : poll_first_.fail();
  return found;
}

template <class Loop>
bool basic_wait_strategy<Loop>::stay_awake(Loop& loop, bool is_watching, steady_time deadline) {
  const bool expects_tasks = std::exchange(tasks_came_, false) || !is_watching;
  return (expects_tasks && spin(loop, is_watching, deadline)) ||
         poll_busily(loop, is_watching, deadline);
}

// A loop that takes each task as soon as it is posted moves the task's cache line to and fro, and
// its producers wait for it. So the loop runs only what waits when a batch begins, and once it has
// caught up it waits for more: for about 25 us at most, and no longer than producers can go on
// without being slowed down. It does not wait for producers that have stopped, or do not run.
template <class Loop>
std::size_t basic_wait_strategy<Loop>::let_tasks_gather(Loop& loop) noexcept {
  constexpr int looks = 32;
  constexpr int pauses = 64;
  constexpr std::size_t few = 256;
  constexpr std::size_t enough = 2048;
  std::size_t waiting = loop.inbox_pending();
  if (waiting < few && gather_.is_due()) {
    bool came = false;
    for (int look = 0; look < looks && waiting < enough && !loop.stopped(); ++look) {
      for (int pause = 0; pause < pauses; ++pause) cpu_relax();
      const std::size_t before = std::exchange(waiting, loop.inbox_pending());
      if (waiting == before) break;
      came = true;
    }
    came ? gather_.succeed() : gather_.fail();
  }
  return waiting >= few ? waiting : std::numeric_limits<std::size_t>::max();
}

// Every few looks the loop polls for I/O, and yields its core to producers that wait for one.
// Rivals that use the core up take their whole time slices, so the loop reads the clock when it
// comes back.
template <class Loop>
bool basic_wait_strategy<Loop>::spin(Loop& loop, bool is_watching, steady_time deadline) {
  constexpr int looks_per_yield = 32;
  constexpr auto max_duration = std::chrono::microseconds{100};
  const bool yields = spin_budget_.looks() >= looks_per_yield;
  const steady_time give_up = yields ? std::min(deadline, loop.now() + max_duration) : deadline;
  for (int look = 1; look <= spin_budget_.looks(); ++look) {
    if (loop.has_tasks() || loop.stopped()) {
      spin_budget_.paid(look);
      return true;
    }
    if (look % looks_per_yield == 0) {
      if (is_watching && loop.poll_for_io()) {
        spin_budget_.wasted();
        return true;
      }
      thread_yield();
      if (loop.now() >= give_up) break;
    } else {
      cpu_relax();
    }
  }
  spin_budget_.wasted();
  return false;
}

template <class Loop>
bool basic_wait_strategy<Loop>::poll_busily(Loop& loop, bool is_watching, steady_time deadline) {
  if (busy_poll_time_ <= std::chrono::nanoseconds::zero() || !busy_poll_.is_due()) return false;
  const steady_time give_up = later(loop.now(), busy_poll_time_);
  while (!loop.has_tasks() && !loop.stopped() && !(is_watching && loop.poll_for_io())) {
    const steady_time present = loop.now();
    if (present >= deadline) break;
    if (present >= give_up) {
      busy_poll_.fail();
      return false;
    }
    cpu_relax();
  }
  busy_poll_.succeed();
  return true;
}

}  // namespace gyre::detail
