// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/async_scope.hpp>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace gyre {
namespace detail {

// Closes the scope and adds this awaiter to the scope's joiners. Returns false if all tasks have
// ended. If it returns true, the awaiter may have been destroyed.
bool scope_join::wait() noexcept {
  if (context_->stop.stop_possible()) {
    on_stop_.emplace(context_->stop, request_stop_of{&scope_->stop_});
  }
  if (scope_->close()) {
    for (scope_join* other = scope_->take_joiners(); other != nullptr;) {
      scope_join& join = *std::exchange(other, other->next_);
      join.context_->where->post(join);
    }
    return false;
  }
  waits_ = true;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  // acquire, here and below: pairs with the release in take_joiners(); makes the errors of the
  // tasks visible.
  std::uintptr_t expected = scope_->joiners_.load(std::memory_order_acquire);
  do {
    if (expected == async_scope::ended) {
      waits_ = false;
      return false;
    }
    next_ = reinterpret_cast<scope_join*>(expected);
    // release: pairs with the acquire in take_joiners(); makes this awaiter visible to the thread
    // that resumes it.
  } while (!scope_->joiners_.compare_exchange_weak(expected, self, std::memory_order_release,
                                                   std::memory_order_acquire));
  return true;
}

void scope_join::await_resume() {
  waits_ = false;
  on_stop_.reset();
  tasks_.reset();
  if (std::exception_ptr error = scope_->final_error(*context_, false)) [[unlikely]]
    std::rethrow_exception(std::move(error));
}

void scope_join::end_program() noexcept {
  static_cast<void>(std::fputs(
      "gyre: a coroutine was destroyed that awaits async_scope::join(); let it end, by a "
      "stop request if need be\n",
      stderr));
  std::abort();
}

void scope_join::children::append_children(std::vector<task_context*>& contexts) {
  scope_.append_children(contexts);
}

}  // namespace detail

async_scope::async_scope(executor& target, inplace_stop_token parent, scope_errors errors) noexcept
    : scope(parent, errors, &resume_joiners, true) {
  inherited_.where = &target;
  inherited_.stop = get_token();
}

async_scope::~async_scope() { abort_if_running("async_scope", "co_await its join() before"); }

// Called once, after the last task has ended. The scope may be destroyed once its joiners are
// resumed, unless the caller is a joiner.
detail::scope_join* async_scope::take_joiners() noexcept {
  // acquire and release: pair with the release and the acquire in scope_join::wait(); make the
  // joiners visible here, and the tasks' errors visible to later joiners.
  return reinterpret_cast<detail::scope_join*>(joiners_.exchange(ended, std::memory_order_acq_rel));
}

std::coroutine_handle<> async_scope::resume_joiners(scope& self,
                                                    const executor* end_executor) noexcept {
  // The caller resumes one joiner that runs on the executor of the last task; the other joiners are
  // posted.
  std::coroutine_handle<> continuation;
  for (detail::scope_join* join = static_cast<async_scope&>(self).take_joiners();
       join != nullptr;) {
    detail::scope_join& joiner = *std::exchange(join, join->next_);
    executor* const target = joiner.context_->where;
    if (target == end_executor && !continuation) {
      continuation = joiner.waiting;
    } else {
      target->post(joiner);
    }
  }
  return continuation ? continuation : std::noop_coroutine();
}

}  // namespace gyre
