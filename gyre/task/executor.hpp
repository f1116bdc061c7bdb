// SPDX-License-Identifier: Apache-2.0
// executor, fork_queue, timer_service: the interface between gyre's coroutines and the loops and
// pools that run them. To run coroutines on another runtime, derive from executor:
//
//     struct ui_thread final : gyre::executor {
//       void post(gyre::operation& op) noexcept override { toolkit::call_later(&run, &op); }
//       bool running_here() const noexcept override { return toolkit::is_ui_thread(); }
//       static void run(void* op) { static_cast<gyre::operation*>(op)->execute(); }
//     };
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/base/timer_wheel.hpp>
#include <gyre/task/detail/nested_run.hpp>

#include <cstddef>

namespace gyre {

/// The one-shot timers of an executor.
///
/// Thread-safety: now() from any thread, the rest from the executor's threads; calls from several
/// of its threads may overlap, but not for the same timer.
class timer_service {
 public:
  /// Expires `timer` once at `deadline` or soon after, on a thread of the executor and not within
  /// this call. Replaces an earlier start. On a strand, the timer expires outside of its
  /// operations, maybe while one runs: its function posts what belongs to the strand.
  virtual void start_timer(timer_operation& timer, steady_time deadline) noexcept = 0;
  /// As start_timer(), for a time limit: expires `timer` when `limit` has passed, never sooner. A
  /// loop counts from the end of the work that it is doing, so that limits which begin in one turn
  /// expire in one turn.
  virtual void start_time_limit(timer_operation& timer, duration limit) noexcept {
    start_timer(timer, detail::timer_wheel::deadline_after(now(), limit));
  }
  /// True if `timer` was started and now does not expire. False if it was not started, has expired,
  /// or is expiring on another thread; its function must then tell when `timer` may be destroyed.
  virtual bool cancel_timer(timer_operation& timer) noexcept = 0;
  /// The clock of the deadlines.
  virtual steady_time now() const noexcept = 0;

 protected:
  ~timer_service() = default;
};

/// The queue of a thread of an executor, for work that other threads may steal.
///
/// Thread-safety: belongs to its thread.
/// Complexity: some nanoseconds.
class fork_queue {
 public:
  /// Forks: `op` runs once, as if posted, on an idle thread that steals it (the oldest first), or
  /// later on this one, unless take_back() prevents it. False, and nothing is done, without memory.
  [[nodiscard]] virtual bool push(operation& op) noexcept = 0;
  /// Takes back `op`. False, and `op` runs, if it was stolen, or if a later one, or a later task of
  /// this thread, is still waiting. Does not access `op`.
  [[nodiscard]] virtual bool take_back(operation& op) noexcept = 0;
  /// Whether a thief has come in vain for work that was taken back. The caller then divides its
  /// work, and pushes a part that it does not take back so soon. True once for each request.
  [[nodiscard]] bool take_request() noexcept {
    if (!requested_) [[likely]]
      return false;
    requested_ = false;
    return true;
  }
  /// Whether take_request() would return true.
  [[nodiscard]] bool has_request() const noexcept { return requested_; }

 protected:
  ~fork_queue() = default;

  /// Makes take_request() return true. Called by the thread of the queue.
  void request_work() noexcept { requested_ = true; }

 private:
  bool requested_ = false;
};

/// The interface of loops, pools and strands: runs each operation that is posted to it, once.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: outlives the coroutines that it runs.
class executor {
 public:
  /// Runs `op` once, on one of the executor's threads and (but for inline_executor()) not within
  /// this call. Must neither fail nor drop `op`: a coroutine waits. `op` may destroy itself.
  virtual void post(operation& op) noexcept = 0;

  /// Posts the `count` operations of a queue, in their order, and leaves the queue empty: for many
  /// coroutines that wake up at once. The default calls post() for each.
  virtual void post_all(intrusive_queue<operation>& operations,
                        [[maybe_unused]] std::size_t count) noexcept {
    while (operation* const first = operations.pop_front()) post(*first);
  }

  /// As post(), for an operation that owns itself: an executor that is destroyed before `op` runs
  /// calls `discard(op)`; one that is out of memory calls `discard(op)` and throws std::bad_alloc.
  /// The default calls post(), and never discards.
  virtual void post_discardable(operation& op, void (*discard)(operation& op) noexcept) {
    static_cast<void>(discard);
    post(op);
  }

  /// Whether an operation may run on this thread now: true within one; on a UI thread, always. An
  /// executor that never runs two at once answers false while one of them waits in a function that
  /// runs other work above it, so that no second one begins there: see current_run(). gyre's do so.
  virtual bool running_here() const noexcept = 0;

  /// Whether operations run on the calling thread only; also while it runs other work above one of
  /// them. For the reports of deadlocks.
  virtual bool runs_only_here() const noexcept { return false; }

  /// Where the calling thread forks; null if the executor does not fork, or the thread is not one
  /// of its own. Stays valid while the thread runs an operation of the executor.
  virtual fork_queue* fork_queue_here() noexcept { return nullptr; }

  /// Null without timers: waits for time then fail with std::errc::operation_not_supported.
  virtual timer_service* timers() noexcept { return nullptr; }

 protected:
  executor() = default;
  ~executor() = default;

  /// For running_here(): a value that differs from thread to thread, and is another one while an
  /// operation waits in a sync_wait(), in run() of a loop, or in a wait of a pool's worker, which
  /// runs other tasks meanwhile. Compare it with the value at the beginning of the operation, or on
  /// a UI thread with that of the thread's message loop. Some nanoseconds.
  [[nodiscard]] static const void* current_run() noexcept { return detail::current_run(); }
};

/// The default executor of coroutines: runs an operation on the thread that posts it, within
/// post() or, if that thread is running an operation already, after that; so the stack is bounded.
executor& inline_executor() noexcept;

}  // namespace gyre
