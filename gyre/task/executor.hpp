// SPDX-License-Identifier: Apache-2.0
// executor, fork_queue, timer_service: the interface between gyre's coroutines and the loops and
// pools that run them. To run coroutines on another runtime, derive a class from executor:
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
/// Thread-safety: now() may be called from any thread, the other members from the executor's
/// threads. Calls on several threads may overlap, but not for the same timer.
class timer_service {
 public:
  /// Expires `timer` once, at `deadline` or soon after, on a thread of the executor and not within
  /// this call. Replaces an earlier start of `timer`. The timer of a strand expires outside of the
  /// strand, possibly while an operation of the strand runs: the timer's function must post work to
  /// the strand.
  virtual void start_timer(timer_operation& timer, steady_time deadline) noexcept = 0;
  /// Expires `timer` when `limit` has passed, never sooner. A loop counts from the end of the work
  /// that it is doing, so that limits which begin in one turn expire in one turn.
  virtual void start_time_limit(timer_operation& timer, duration limit) noexcept {
    start_timer(timer, detail::timer_wheel::deadline_after(now(), limit));
  }
  /// Cancels `timer`. Returns true if `timer` was started and will not expire. Returns false if it
  /// was not started, has expired, or is expiring on another thread; the timer's function must then
  /// report when `timer` may be destroyed.
  virtual bool cancel_timer(timer_operation& timer) noexcept = 0;
  /// Returns the present time of the clock to which the deadlines refer.
  virtual steady_time now() const noexcept = 0;

 protected:
  ~timer_service() = default;
};

/// The queue of one thread of an executor, for work that other threads may steal.
///
/// Thread-safety: used only by its thread.
/// Complexity: some nanoseconds.
class fork_queue {
 public:
  /// Forks `op`: it runs once, as if it were posted, on an idle thread that steals it (the oldest
  /// first), or later on this thread, unless take_back() prevents that. Returns false without
  /// memory, and then does nothing.
  [[nodiscard]] virtual bool push(operation& op) noexcept = 0;
  /// Takes back `op`, which then does not run. Returns false if `op` was stolen, or if a later
  /// operation, or a later task of this thread, is still waiting; `op` then runs. Does not access
  /// `op`.
  [[nodiscard]] virtual bool take_back(operation& op) noexcept = 0;
  /// Returns whether another thread has tried to steal work that was taken back, once for each such
  /// request. The caller then divides its work, and pushes a part that it does not take back soon.
  [[nodiscard]] bool take_request() noexcept {
    if (!is_requested_) [[likely]]
      return false;
    is_requested_ = false;
    return true;
  }
  /// Returns whether take_request() would return true.
  [[nodiscard]] bool has_request() const noexcept { return is_requested_; }

 protected:
  ~fork_queue() = default;

  /// Makes take_request() return true. Called by the thread of the queue.
  void request_work() noexcept { is_requested_ = true; }

 private:
  bool is_requested_ = false;
};

/// The interface of loops, pools and strands. An executor runs each operation that is posted to it,
/// once.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive the coroutines that it runs.
class executor {
 public:
  /// Runs `op` once, on one of the executor's threads and (except for inline_executor()) not within
  /// this call. Must neither fail nor drop `op`, because a coroutine waits for it. `op` may destroy
  /// itself when it runs.
  virtual void post(operation& op) noexcept = 0;

  /// Posts the `count` operations of a queue in their order, and leaves the queue empty. For many
  /// coroutines that wake up at once. The default calls post() for each operation.
  virtual void post_all(intrusive_queue<operation>& operations,
                        [[maybe_unused]] std::size_t count) noexcept {
    while (operation* const first = operations.pop_front()) post(*first);
  }

  /// Posts `op`, an operation that owns itself. An executor that is destroyed before `op` runs
  /// calls `discard(op)`; an executor without memory calls `discard(op)` and throws std::bad_alloc.
  /// The default calls post(), and never discards.
  virtual void post_discardable(operation& op, void (*discard)(operation& op) noexcept) {
    static_cast<void>(discard);
    post(op);
  }

  /// Returns whether an operation may run on this thread now: true within an operation of the
  /// executor, and always true on a UI thread. An executor that never runs two operations at once
  /// returns false while one of its operations waits in a function that runs other work above it in
  /// the stack, so that no second one begins there: see current_run(). The executors of gyre do so.
  virtual bool running_here() const noexcept = 0;

  /// Returns whether all operations of the executor run on the calling thread, even while that
  /// thread runs other work above one of them. Used by the reports of deadlocks.
  virtual bool runs_only_here() const noexcept { return false; }

  /// Returns the queue to which the calling thread forks; null if the executor does not fork, or if
  /// the thread is not one of its own. The queue stays valid while the thread runs an operation of
  /// the executor.
  virtual fork_queue* fork_queue_here() noexcept { return nullptr; }

  /// Returns the executor's timers; null if it has none: waits for time then fail with
  /// std::errc::operation_not_supported.
  virtual timer_service* timers() noexcept { return nullptr; }

 protected:
  executor() = default;
  ~executor() = default;

  /// Returns a value with which running_here() recognises the thread and the run. It differs from
  /// thread to thread, and changes while an operation waits in a sync_wait(), in run() of a loop,
  /// or in a wait of a pool's worker, which runs other tasks meanwhile. Compare it with its value
  /// at the beginning of the operation, or on a UI thread with its value in the message loop. Takes
  /// some nanoseconds.
  [[nodiscard]] static const void* current_run() noexcept { return detail::current_run(); }
};

/// Returns the default executor of coroutines. It runs an operation on the thread that posts it:
/// within post() or, if that thread is already running an operation, after that operation; so the
/// stack is bounded.
executor& inline_executor() noexcept;

}  // namespace gyre
