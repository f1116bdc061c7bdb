// SPDX-License-Identifier: Apache-2.0
// stoppable_wait: the race between completion, stop and destruction of a coroutine's wait.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <optional>

namespace gyre::detail {

/// A wait for an event of an executor, its home, such as a timer. The event belongs to the home's
/// threads; the coroutine, and the thread that stops it, may be elsewhere, and post the wait there.
///
/// Up to three parties touch a wait: the thread that starts it, the one where the event completes,
/// and the one that cancels it. On a loop they are one thread, on other executors they meet. Each
/// party leaves when it has touched the wait for the last time, and the last one resumes the
/// coroutine, so that no party finds the wait gone.
///
/// | parties | start() has returned | complete_event() | stop | cancel() in time | cancel() too late |
/// |---|---|---|---|---|---|
/// | starting, event | event | starting | - | - | - |
/// | starting | resumes | - | - | - | - |
/// | event | - | resumes | event, cancelling | - | - |
/// | event, cancelling | - | cancelling | - | resumes | event |
/// | cancelling | - | - | - | - | resumes |
class stoppable_wait : operation {
 public:
  stoppable_wait(const stoppable_wait&) = delete;
  stoppable_wait& operator=(const stoppable_wait&) = delete;

 protected:
  stoppable_wait() noexcept : operation(&run) {}
  ~stoppable_wait() = default;

  /// Starts the wait, on a thread of `home`. False: it is over, and the coroutine goes on at once.
  bool begin(executor& home, std::coroutine_handle<> awaiting,
             const task_context& context) noexcept;
  /// Starts waiting for the event; true if it has completed already. On a thread of the home.
  virtual bool start() noexcept = 0;
  /// Ends the wait for the event; false if that completes nevertheless, or has completed. On a
  /// thread of the home.
  virtual bool cancel() noexcept = 0;
  /// The event, after start() has returned false. The wait may be gone afterwards.
  void complete_event() noexcept {
    if (leave(event)) resume_coroutine();
  }

  /// First of all in await_resume().
  void end() noexcept { on_stop_.reset(); }
  /// In the destructor of the derived class: whether it must cancel the event. A wait may be
  /// destroyed on a thread of its home, unless it is about to start or to be cancelled.
  bool abandon() noexcept;

  executor& home() const noexcept { return *home_; }
  /// Null before begin().
  const task_context* context() const noexcept { return context_; }
  void set_context(const task_context& context) noexcept { context_ = &context; }

 private:
  struct stop_function {
    stoppable_wait* self;
    void operator()() const noexcept { self->stop(); }
  };
  enum party : std::uint8_t { starting = 1, event = 2, cancelling = 4 };
  // The next step of run().
  enum class step : std::uint8_t { start, cancel, leave_cancelled, leave_late, resume };

  bool start_here() noexcept;
  void stop() noexcept;
  bool leave(unsigned parties) noexcept;
  void resume_coroutine() noexcept;
  static void run(operation& self);

  std::coroutine_handle<> waiting_;
  executor* home_ = nullptr;
  const task_context* context_ = nullptr;
  std::optional<inplace_stop_callback<stop_function>> on_stop_;
  atomic<std::uint8_t> parties_{0};
  step step_ = step::start;
};

}  // namespace gyre::detail
