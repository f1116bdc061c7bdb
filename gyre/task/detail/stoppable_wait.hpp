// SPDX-License-Identifier: Apache-2.0
// stoppable_wait: decides the race between the completion, the stop and the destruction of a
// coroutine's wait.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <optional>

namespace gyre::detail {

/// A wait for an event, such as a timer, that belongs to an executor: the event executor.
///
/// The wait has three parties (see wait_core): the thread that starts it, the thread that completes
/// the event and the thread that cancels it. On a loop they are one thread, elsewhere they may be
/// three.
///
/// | parties | start() returns | complete_event() | stop | cancel() in time | too late |
/// |---|---|---|---|---|---|
/// | starting, event | event | starting | - | - | - |
/// | starting | resumes | - | - | - | - |
/// | event | - | resumes | event, cancelling | - | - |
/// | event, cancelling | - | cancelling | - | resumes | event |
/// | cancelling | - | - | - | - | resumes |
class stoppable_wait : operation {
 protected:
  stoppable_wait() noexcept : operation(&run) {}
  ~stoppable_wait() = default;

  /// Starts the wait, on a thread of `event_executor`. Returns false if the wait is over, so that
  /// the coroutine continues.
  bool begin(executor& event_executor, std::coroutine_handle<> coroutine,
             const task_context& context) noexcept;
  /// Starts waiting for the event. Returns true if the event has completed already. Called on a
  /// thread of the event executor.
  virtual bool start() noexcept = 0;
  /// Cancels the event. Returns false if the event has completed, or will complete nevertheless.
  /// Called on a thread of the event executor, possibly within request_stop().
  virtual bool cancel() noexcept = 0;
  /// Called when the event completes, unless start() returned true. Resumes the coroutine, unless a
  /// cancellation must end first. The wait may have been destroyed when this function returns.
  void complete_event() noexcept {
    if (core_.leave(event)) resume_coroutine();
  }

  /// Removes the stop callback. Called first in await_resume().
  void end() noexcept { on_stop_.reset(); }
  /// Returns whether the destructor of the derived class, which calls this, must cancel the event.
  /// Called on a thread of the event executor, unless the wait is about to start or was stopped.
  bool abandon() noexcept;

  executor& event_executor() const noexcept { return *event_executor_; }
  /// Returns the context of the coroutine; null before begin() or set_context().
  const task_context* context() const noexcept { return context_; }
  void set_context(const task_context& context) noexcept { context_ = &context; }

 private:
  struct stop_function {
    stoppable_wait* self;
    void operator()() const noexcept { self->stop(); }
  };
  static constexpr wait_core::parties starting = 1;
  static constexpr wait_core::parties event = 2;
  static constexpr wait_core::parties cancelling = 4;
  // The next step of run().
  enum class step : std::uint8_t { start, cancel, exit_in_time, exit_too_late, resume };

  bool start_here() noexcept;
  void stop() noexcept;
  void resume_coroutine() noexcept;
  static void run(operation& self);

  std::coroutine_handle<> coroutine_;
  executor* event_executor_ = nullptr;
  const task_context* context_ = nullptr;
  std::optional<inplace_stop_callback<stop_function>> on_stop_;
  wait_core core_;
  step step_ = step::start;
};

}  // namespace gyre::detail
