// SPDX-License-Identifier: Apache-2.0
// Where coroutines go on: the one interface between gyre's coroutines and whatever runs them.
//
// Loops and pools are executors. To run gyre's coroutines on another runtime, derive from executor:
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

/// Timers of an executor. All members but now() belong to the executor's threads. If that is one
/// thread, neither they nor the expiry of timers overlap. If there are several, any of them may
/// call them at any time, also for a timer that another one has started, but not for the same timer
/// at once; and a timer whose cancel_timer() says false may be expiring on another thread.
class timer_service {
 public:
  /// Expires `timer` once at `deadline` or soon after it, on a thread of the executor, in place of
  /// an earlier start. Not within this call.
  virtual void start_timer(timer_operation& timer, steady_time deadline) noexcept = 0;
  /// True: it was started, and does not expire. False if it was not started, or has expired, or
  /// expires now on another thread; then whoever destroys it must know by its function that this is
  /// done with it. Never waits for that.
  virtual bool cancel_timer(timer_operation& timer) noexcept = 0;
  /// The time by which deadlines are kept. Any thread.
  virtual steady_time now() const noexcept = 0;

 protected:
  ~timer_service() = default;
};

/// Runs operations, each once. A coroutine's executor must outlive the coroutine.
class executor {
 public:
  /// Runs `op` once, on one of the executor's threads, and not before post() returns there. From
  /// then on `op` belongs to its own function, which may destroy it. It must not fail and must not
  /// drop the operation: a coroutine waits for it. Any thread.
  virtual void post(operation& op) noexcept = 0;

  /// As post(), for an operation that owns itself: calls `discard` with it, instead of running it,
  /// if the executor is destroyed before. May throw std::bad_alloc, after it has called `discard`.
  /// The default posts. Any thread.
  virtual void post_discardable(operation& op, void (*discard)(operation& op) noexcept) {
    static_cast<void>(discard);
    post(op);
  }

  /// Whether the calling thread is one where posted operations run, and is running one. Any thread.
  virtual bool running_here() const noexcept = 0;

  /// Whether the calling thread is the only one where posted operations run. Debug builds use it to
  /// find deadlocks. Any thread.
  virtual bool runs_only_here() const noexcept { return false; }

  /// Makes `op` available to idle threads of the executor, and lets the caller go on meanwhile: a
  /// fork. False, and nothing was done, if the executor does not fork, or the calling thread is not
  /// one of its own.
  ///
  /// From then on `op` runs once, as if posted, on this thread or another, unless retract() takes
  /// it back. What an executor gives away first is what was offered first. Costs some nanoseconds.
  virtual bool offer(operation&) noexcept { return false; }

  /// Takes back the operation that this thread offered last. False if it is not that: another
  /// thread has it, or something newer lies above it, so that it runs later. On the thread that
  /// offered it; `op` is not looked into.
  virtual bool retract(operation&) noexcept { return false; }

  /// The executor's timers, if it has any. Operations that need time report
  /// std::errc::operation_not_supported where it has none. Any thread.
  virtual timer_service* timers() noexcept { return nullptr; }

 protected:
  executor() = default;
  ~executor() = default;
};

/// The executor of coroutines that were given none: runs an operation on the thread that posts it,
/// at once, or, if that is running one already, after it. So the stack does not grow however many
/// operations post each other.
executor& inline_executor() noexcept;

}  // namespace gyre
