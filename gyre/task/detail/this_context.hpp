// SPDX-License-Identifier: Apache-2.0
// Awaiters for combinators that are coroutines: their context, and ends without a throw.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>

namespace gyre::detail {

/// Awaited, gives the context of the coroutine, without waiting.
class this_context : public suspends_always {
 public:
  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    context_ = &context_of(coroutine);
    return gives_way(*context_, coroutine);
  }
  task_context& await_resume() const noexcept { return *context_; }

 private:
  task_context* context_ = nullptr;
};

/// Replaces the stop token of a coroutine's context until the end of a block.
class stopped_by {
 public:
  stopped_by(task_context& context, inplace_stop_token token) noexcept
      : context_(context),
        outer_(std::exchange(context.stop, token)),
        outer_cancellations_(context.cancellations) {}
  stopped_by& operator=(stopped_by&&) = delete;
  ~stopped_by() {
    context_.stop = outer_;
    // Only cancellations by the inner token have been counted since the constructor.
    if (!outer_.stop_requested()) context_.cancellations = outer_cancellations_;
  }

 private:
  task_context& context_;
  inplace_stop_token outer_;
  std::uint32_t outer_cancellations_;
};

/// Awaited, runs a task to its end and leaves the result, or the error, in it.
template <class T>
class await_ready_state : public suspends_always {
 public:
  explicit await_ready_state(task<T>& work) noexcept : work_(task_access::state(work)) {}

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    return work_.await_suspend(coroutine);
  }
  void await_resume() const noexcept { work_.end_without_continuation(); }

 private:
  task_state<T>& work_;
};

/// Awaited, ends the coroutine with `error`, one of its locals, unless that is null: as if it were
/// thrown, but at a hundredth of the cost, since the frame is destroyed instead of unwound. Not
/// within a try block, as its handlers would not run.
class fail_with : public suspends_always {
 public:
  explicit fail_with(std::exception_ptr& error) noexcept : error_(error) {}

  bool await_ready() const noexcept { return error_ == nullptr; }
  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> self) const noexcept {
    task_promise_base& promise = self.promise();
    promise.context->trace.innermost.set(promise.trace.awaited_by.get());
    self.promise().fail(std::move(error_));
    return transfer_to(end_failed_or_unawaited(promise, self));
  }

 private:
  std::exception_ptr& error_;
};

/// Awaited, gives the result of a task that has ended, or ends the coroutine as fail_with does.
template <class T>
class take_result : public suspends_always {
 public:
  explicit take_result(task<T>& work) noexcept : work_(task_access::state(work)) {}

  bool await_ready() const noexcept { return !work_.failed(); }
  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> self) const noexcept {
    std::exception_ptr error = work_.take_error();
    return fail_with(error).await_suspend(self);
  }
  T await_resume() const { return work_.take_result(); }

 private:
  task_state<T>& work_;
};

}  // namespace gyre::detail
