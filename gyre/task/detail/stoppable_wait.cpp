// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/stoppable_wait.hpp>

#include <gyre/task/detail/transfer.hpp>

#include <cassert>

namespace gyre::detail {

bool stoppable_wait::begin(executor& home, std::coroutine_handle<> awaiting,
                           const task_context& context) noexcept {
  waiting_ = awaiting;
  home_ = &home;
  context_ = &context;
  // relaxed: not shared yet.
  parties_.store(starting | event, std::memory_order_relaxed);
  if (home.running_here()) return !start_here();
  home.post(*this);
  return true;
}

// Whether the wait is over.
bool stoppable_wait::start_here() noexcept {
  step_ = step::cancel;  // the next one
  if (start()) return exit_wait(starting | event);
  const inplace_stop_token stop = context_->stop;
  if (stop.stop_possible()) on_stop_.emplace(stop, stop_function{this});
  return exit_wait(starting);
}

// Any thread.
void stoppable_wait::stop() noexcept {
  // acq_rel: the release is for run(), through the executor as well; the acquire pairs with the
  // release in exit_wait(), of a party that has exited.
  std::uint8_t seen = parties_.load(std::memory_order_acquire);
  do {
    if ((seen & event) == 0) return;
  } while (!parties_.compare_exchange_weak(seen, static_cast<std::uint8_t>(seen | cancelling),
                                           std::memory_order_acq_rel, std::memory_order_acquire));
  if (!home_->running_here()) return home_->post(*this);
  step_ = cancel() ? step::exit_in_time : step::exit_too_late;
  // The coroutine resumes after request_stop(): the inline executor would run it within.
  executor& where = *context_->where;
  (&where == &inline_executor() ? *home_ : where).post(*this);
}

// Whether the caller was the last party.
bool stoppable_wait::exit_wait(unsigned parties) noexcept {
  const auto others = static_cast<std::uint8_t>(~parties);
  // release: pairs with the acquire of the last party, which sees what the others did.
  return (parties_.fetch_and(others, std::memory_order_acq_rel) & others) == 0;
}

void stoppable_wait::resume_coroutine() noexcept {
  executor& where = *context_->where;
  // The event may have come outside of the home, if that is a strand.
  if (where.running_here()) return resume(waiting_);
  step_ = step::resume;
  where.post(*this);
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
      if (wait.exit_wait(cancelling | event)) wait.resume_coroutine();
      break;
    case step::exit_too_late:
      if (wait.exit_wait(cancelling)) wait.resume_coroutine();
      break;
    case step::resume: resume(wait.waiting_); break;
  }
}

bool stoppable_wait::abandon() noexcept {
  // relaxed: this is a thread of the home, or the wait has not begun.
  if (parties_.load(std::memory_order_relaxed) == 0) return false;
  on_stop_.reset();
  assert((parties_.load(std::memory_order_relaxed) & (starting | cancelling)) == 0 &&
         "a wait was destroyed that was about to start or to be cancelled");
  return true;
}

}  // namespace gyre::detail
