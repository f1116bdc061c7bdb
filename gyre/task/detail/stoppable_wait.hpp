// SPDX-License-Identifier: Apache-2.0
// stoppable_wait: the race between completion, stop and destruction of a coroutine's wait.
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

/// A wait for an event of an executor, its home, such as a timer.
///
/// The thread that starts the wait, the one that completes the event and the one that cancels it
/// are its parties (see wait_core), which are one thread on a loop and may be three elsewhere.
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

  /// Starts the wait, on a thread of `home`. False if it is over, so that the coroutine continues.
  bool begin(executor& home, std::coroutine_handle<> coroutine,
             const task_context& context) noexcept;
  /// Starts waiting for the event; true if it has completed already. On a thread of the home.
  virtual bool start() noexcept = 0;
  /// Cancels the event; false if it has completed, or completes nevertheless. On a thread of the
  /// home, maybe within request_stop().
  virtual bool cancel() noexcept = 0;
  /// The event, after start() has returned false. The wait may be gone afterwards.
  void complete_event() noexcept {
    if (core_.leave(event)) resume_coroutine();
  }

  /// Removes the stop callback. Called first in await_resume().
  void end() noexcept { on_stop_.reset(); }
  /// For the destructor of the derived class: whether that must cancel the event. On a thread of
  /// the home, unless the wait is about to start or was stopped.
  bool abandon() noexcept;

  executor& home() const noexcept { return *home_; }
  /// The context of the coroutine; null before begin().
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
  executor* home_ = nullptr;
  const task_context* context_ = nullptr;
  std::optional<inplace_stop_callback<stop_function>> on_stop_;
  wait_core core_;
  step step_ = step::start;
};

}  // namespace gyre::detail
