// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/submission_awaiter.hpp>

#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>

#include <cassert>

namespace gyre::detail {

[[gnu::noinline]] bool slot_awaiter::submit_now(task_builder builder) {
  result_ = pool_->admission().submit_now(builder, priority_);
  return result_ != admission_result::must_wait;
}

bool slot_awaiter::wait(std::coroutine_handle<> awaiting, const task_context& context) noexcept {
  waiting = awaiting;
  context_ = &context;
  if (context.stop.stop_possible()) on_stop_.emplace(context.stop, cancel_wait{this});
  admission& gate = pool_->admission();
  gate.reclaim();
  const capacity::enqueue_result queued = pool_->slots().enqueue(*this);
  if (queued == capacity::enqueue_result::closed) gate.refuse(admission_result::closed);
  return queued == capacity::enqueue_result::waits || gives_way(context, awaiting);
}

[[gnu::noinline]] void slot_awaiter::finish(task_builder builder) {
  if (result_ == admission_result::must_wait) {
    on_stop_.reset();
    const task_context* const context = std::exchange(context_, nullptr);
    if (is_cancelled()) throw_cancelled(*context);
    if (granted() == 0) throw_refused(admission_result::closed);
    result_ = pool_->admission().submit_admitted(builder, priority_);
  }
  if (result_ != admission_result::granted) throw_refused(result_);
}

void slot_awaiter::cancel_wait::operator()() const noexcept {
  if (self->pool_->slots().cancel(*self)) self->context_->where->post(*self);
}

void slot_awaiter::wake(slot_waiter& waiter) noexcept {
  auto& self = static_cast<slot_awaiter&>(waiter);
  if (self.granted() == 0) self.pool_->admission().refuse(admission_result::closed);
  self.context_->where->post(self);
}

void slot_awaiter::abandon() noexcept {
  on_stop_.reset();
  [[maybe_unused]] const bool waited = pool_->slots().cancel(*this);
  assert(waited && "a coroutine was destroyed between its wake-up and its resumption");
}

}  // namespace gyre::detail
