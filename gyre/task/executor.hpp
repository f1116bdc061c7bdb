// SPDX-License-Identifier: Apache-2.0
// executor, timer_service: the interface between gyre's coroutines and the loops and pools that run
// them. To run coroutines on another runtime, derive from executor:
//
//     class ui_thread final : public gyre::executor {
//       void post(gyre::operation& op) noexcept override { toolkit::call_later(&run, &op); }
//       bool running_here() const noexcept override { return toolkit::is_ui_thread(); }
//       static void run(void* op) { static_cast<gyre::operation*>(op)->execute(); }
//     };
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/base/timer_operation.hpp>

namespace gyre {

/// The timers of an executor.
///
/// Thread-safety: now() from any thread, the rest from the executor's threads. Where those are
/// several, calls may overlap, but not for the same timer.
class timer_service {
 public:
  /// Expires `timer` once at `deadline` or soon after, on a thread of the executor and not within
  /// this call. Replaces an earlier start.
  virtual void start_timer(timer_operation& timer, steady_time deadline) noexcept = 0;
  /// True if `timer` was started and now does not expire. False if it was not started, has expired,
  /// or is expiring on another thread; the last must be over before `timer` is destroyed.
  virtual bool cancel_timer(timer_operation& timer) noexcept = 0;
  /// The clock of the deadlines.
  virtual steady_time now() const noexcept = 0;

 protected:
  ~timer_service() = default;
};

/// Runs operations that are posted to it, each once: a loop, a pool, a strand.
///
/// Thread-safety: every member may be called from any thread, but for offer() and retract().
/// Lifetime: outlives the coroutines that it runs.
class executor {
 public:
  /// Runs `op` once, on one of the executor's threads and not within this call. Must neither fail
  /// nor drop `op`, as a coroutine waits for it. The function of `op` may destroy it.
  virtual void post(operation& op) noexcept = 0;

  /// As post(), for an operation that owns itself: if the executor is destroyed before `op` runs,
  /// it calls `discard(op)`. May throw std::bad_alloc, after `discard`. The default posts.
  virtual void post_discardable(operation& op, void (*discard)(operation& op) noexcept) {
    static_cast<void>(discard);
    post(op);
  }

  /// Whether the calling thread is running an operation of this executor.
  virtual bool running_here() const noexcept = 0;

  /// Whether operations run on the calling thread only. For the deadlock report of Debug builds.
  virtual bool runs_only_here() const noexcept { return false; }

  /// Forks: `op` runs once, as if posted, on this thread or an idle one that steals it, the oldest
  /// offer first, unless retract() takes it back. False, and nothing is done, if the executor does
  /// not fork or the calling thread is not one of its own. Costs some nanoseconds.
  virtual bool offer(operation&) noexcept { return false; }

  /// Takes back `op`, on the thread that offered it. False if another thread has it or this thread
  /// has offered another since: it will run. Does not access `op`.
  virtual bool retract(operation&) noexcept { return false; }

  /// Null if it has none; then waits for time fail with std::errc::operation_not_supported.
  virtual timer_service* timers() noexcept { return nullptr; }

 protected:
  executor() = default;
  ~executor() = default;
};

/// The default executor of coroutines: runs an operation on the thread that posts it, at once or,
/// if that thread is running one already, after it; so the stack does not grow.
executor& inline_executor() noexcept;

}  // namespace gyre
