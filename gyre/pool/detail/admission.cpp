// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/admission.hpp>

#include <gyre/base/error.hpp>
#include <gyre/sync/detail/blocked_acquire.hpp>
#include <gyre/task/time_limit_error.hpp>
#include <gyre/trace/detail/activity_scope.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <cerrno>
#include <chrono>
#include <system_error>

namespace gyre::detail {
namespace {

// The maximum number of tasks that wait without a slot, and the maximum nesting of tasks that their
// submitter runs.
constexpr std::size_t max_slotless = 1024;
constexpr std::size_t max_submitter_depth = 16;

// The time for which a thread in the line of a wide pool sleeps before it serves the line itself.
// It doubles with each further sleep, up to the maximum.
constexpr std::chrono::milliseconds min_line_sleep{2};
constexpr std::chrono::milliseconds max_line_sleep{64};

// The number of tasks that the calling thread runs as their submitter, nested in one another.
constinit thread_local std::size_t submitter_depth = 0;

}  // namespace

void throw_refused(admission_result reason) {
  switch (reason) {
    case admission_result::timed_out:
      throw std::system_error(make_error_code(time_limit_errc::expired),
                              "gyre::thread_pool: no slot for a task within block_timeout");
    case admission_result::closed:
      throw_system_error(ECANCELED, "gyre::thread_pool: drained or stopped");
    default: throw_system_error(EAGAIN, "gyre::thread_pool: full");
  }
}

admission::admission(std::size_t capacity, when_full policy, duration block_timeout) noexcept
    : slots_(std::min<std::uint64_t>(capacity, semaphore::max())),
      limit_(slots_.available()),
      chunk_size_(std::clamp<std::size_t>(limit_ / 256, 1, 64)),
      worker_chunk_size_(chunk_size_),
      policy_(policy),
      block_timeout_(block_timeout) {}

admission::submitter_run::submitter_run() noexcept { ++submitter_depth; }
admission::submitter_run::~submitter_run() { --submitter_depth; }

bool admission::may_add_slotless() const noexcept {
  // relaxed: the limit need not be exact.
  return slotless_.load(std::memory_order_relaxed) < max_slotless;
}

admission::step admission::choose_step_outside(waiting caller) const noexcept {
  switch (policy_) {
    case when_full::reject: return step::refuse;
    case when_full::drop_oldest: return step::drop_another;
    case when_full::caller_runs:
      if (caller == waiting::suspends) return step::suspend;
      // Beyond this depth the task waits without a slot: a chain of tasks, each of which submits
      // the next, would otherwise overflow the stack.
      return submitter_depth < max_submitter_depth || !may_add_slotless() ? step::run_here
                                                                          : step::go_slotless;
    case when_full::block: break;
  }
  if (caller == waiting::suspends) return step::suspend;
  return caller == waiting::fails ? step::refuse : step::wait;
}

admission::step admission::choose_step_within() const noexcept {
  const bool may_nest = submitter_depth < max_submitter_depth;
  switch (policy_) {
    case when_full::reject: return step::refuse;
    case when_full::drop_oldest: return step::drop_another;
    case when_full::caller_runs: return may_nest ? step::run_here : step::go_slotless;
    case when_full::block: break;
  }
  // Once max_slotless tasks wait, the submitter runs the task, up to this depth. Beyond this depth
  // the task waits without a slot nevertheless: a task that keeps submitting itself would otherwise
  // never return and overflow the stack.
  return may_nest && !may_add_slotless() ? step::run_here : step::go_slotless;
}

// Counts a coroutine that waits for a slot. No slot is missed: a slot released earlier is found by
// the coroutine itself or, if others wait, by serve_waits(); a thread that releases a slot later
// sees the count.
void admission::join_line() noexcept {
  // relaxed: the semaphore publishes the counts.
  urgent_waits_.fetch_add(1, std::memory_order_relaxed);
  coroutine_waits_.fetch_add(1, std::memory_order_relaxed);
  slots_.serve_waits(1);
}
void admission::leave_line() noexcept {
  coroutine_waits_.fetch_sub(1, std::memory_order_relaxed);
  urgent_waits_.fetch_sub(1, std::memory_order_relaxed);
}

admission::grant admission::wait_until(steady_time deadline, std::size_t max_slots) noexcept {
  if (const std::size_t slots = try_acquire_portion(max_slots); slots > 0) {
    return {admission_result::granted, slots};
  }
  const trace::detail::activity_scope recorded_wait(trace::detail::find_recorder(),
                                                    trace::detail::event_kind::blocked_submit, 0);
  // In a wide pool each thread waits for more slots than exist, so that only serve_waits() ends the
  // wait. serve_waits() is called here for slots that were released before the wait.
  const bool is_wide = limit_ >= wide_capacity;
  bool is_urgent = !is_wide;
  // relaxed, here and below: is_urgent() is a hint.
  if (is_urgent) urgent_waits_.fetch_add(1, std::memory_order_relaxed);
  blocked_acquire wait(slots_, is_wide ? limit_ + 1 : 1);
  if (is_wide) slots_.serve_waits(1);
  std::chrono::nanoseconds line_sleep = is_wide ? min_line_sleep : std::chrono::nanoseconds::max();
  bool has_timed_out = false;
  while (!wait.has_ended()) {
    const steady_time current_time = monotonic_now();
    has_timed_out = current_time >= deadline;
    if (has_timed_out) break;
    wait.sleep_until(std::min(deadline, later(current_time, line_sleep)));
    if (wait.has_ended() || !is_wide) continue;
    if (!std::exchange(is_urgent, true)) {
      urgent_waits_.fetch_add(1, std::memory_order_relaxed);
    }
    slots_.serve_waits(1);
    line_sleep = std::min<std::chrono::nanoseconds>(2 * line_sleep, max_line_sleep);
  }
  const std::size_t slots = wait.end();
  if (is_urgent) urgent_waits_.fetch_sub(1, std::memory_order_relaxed);
  if (slots > 0) return {admission_result::granted, slots};
  return {has_timed_out ? admission_result::timed_out : admission_result::closed};
}

}  // namespace gyre::detail
