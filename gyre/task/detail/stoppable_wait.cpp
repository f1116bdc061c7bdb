// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/stoppable_wait.hpp>

#include <gyre/task/detail/transfer.hpp>

#include <cassert>

namespace gyre::detail {

bool stoppable_wait::begin(executor& event_executor, std::coroutine_handle<> coroutine,
                           const task_context& context) noexcept {
  coroutine_ = coroutine;
  event_executor_ = &event_executor;
  context_ = &context;
  core_.begin(starting | event);
  if (event_executor.running_here()) return !start_here();
  event_executor.post(*this);
  return true;
}

// Starts the wait on a thread of the event's executor. Returns whether the wait is over.
bool stoppable_wait::start_here() noexcept {
  step_ = step::cancel;  // the next call of run() cancels the event, unless another step is set
  if (start()) return core_.leave(starting | event);
  const inplace_stop_token stop = context_->stop;
  if (stop.stop_possible()) on_stop_.emplace(stop, stop_function{this});
  return core_.leave(starting);
}

// Called by the stop callback, on any thread.
void stoppable_wait::stop() noexcept {
  if (!core_.join(cancelling, event)) return;
  if (!event_executor_->running_here()) return event_executor_->post(*this);
  step_ = cancel() ? step::exit_in_time : step::exit_too_late;
  // The coroutine is posted, so that it resumes after request_stop() has returned. The inline
  // executor would run it within request_stop(), so the event's executor resumes it.
  executor& target = *context_->where;
  (&target == &inline_executor() ? *event_executor_ : target).post(*this);
}

void stoppable_wait::resume_coroutine() noexcept {
  executor& target = *context_->where;
  // The event may have completed outside of the strand, if the event's executor is a strand.
  if (target.running_here()) return resume(coroutine_);
  step_ = step::resume;
  target.post(*this);
}

void stoppable_wait::run(operation& self) {
  auto& wait = static_cast<stoppable_wait&>(self);
  switch (wait.step_) {
    case step::start:
      if (wait.start_here()) wait.resume_coroutine();
      break;
    case step::cancel:
      wait.step_ = wait.cancel() ? step::exit_in_time : step::exit_too_late;
      return run(self);
    case step::exit_in_time:
      if (wait.core_.leave(cancelling | event)) wait.resume_coroutine();
      break;
    case step::exit_too_late:
      if (wait.core_.leave(cancelling)) wait.resume_coroutine();
      break;
    case step::resume: resume(wait.coroutine_); break;
  }
}

bool stoppable_wait::abandon() noexcept {
  if (!core_.has(starting | event | cancelling)) return false;
  on_stop_.reset();
  assert(!core_.has(starting | cancelling) &&
         "a wait was destroyed that was about to start or to be cancelled");
  return true;
}

}  // namespace gyre::detail
