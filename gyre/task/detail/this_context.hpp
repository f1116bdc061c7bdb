// SPDX-License-Identifier: Apache-2.0
// this_context, stopped_by, stops_as_errors, await_ready_state, fail_with, take_result: for
// combinators that are coroutines, which read their context, replace its stop token, and end
// without a throw.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/detail/function_sequence.hpp>

#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>

namespace gyre::detail {

/// An awaiter that returns the context of the coroutine, without waiting.
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

/// Replaces the stop token of a coroutine's context during the lifetime of this object.
class stopped_by {
 public:
  stopped_by(task_context& context, inplace_stop_token token) noexcept
      : context_(context),
        outer_(std::exchange(context.stop, token)),
        outer_cancellations_(context.cancellations) {}
  stopped_by& operator=(stopped_by&&) = delete;
  ~stopped_by() {
    context_.stop = outer_;
    // The cancellations that were counted since the constructor came from the inner token only.
    if (!outer_.stop_requested()) context_.cancellations = outer_cancellations_;
  }

 private:
  task_context& context_;
  inplace_stop_token outer_;
  std::uint32_t outer_cancellations_;
};

/// Lets waits of a context report a stop as an error during the lifetime of this object. The token
/// stays, because a wait removes its stop callback from the source of the token.
class stops_as_errors {
 public:
  explicit stops_as_errors(task_context& context) noexcept : context_(context) {
    context.reports_stops = true;
  }
  stops_as_errors& operator=(stops_as_errors&&) = delete;
  ~stops_as_errors() { context_.reports_stops = false; }

 private:
  task_context& context_;
};

/// An awaiter that runs a task to its end, and leaves the result or the error in the task. The
/// flight recorder names the task instead of the coroutine that awaits it.
template <class T>
class await_ready_state : public suspends_always {
 public:
  explicit await_ready_state(task<T>& work) noexcept : work_(task_access::state(work)) {}

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    const std::coroutine_handle<> inner = work_.prepare(coroutine);
    trace::detail::note_inner_coroutine(inner.address());
    return transfer_to(inner);
  }
  void await_resume() const noexcept { work_.end_without_continuation(); }

 private:
  task_state<T>& work_;
};

/// An awaiter that ends the coroutine with `error`, one of the coroutine's locals, unless `error`
/// is null. The effect is that of a throw at a hundredth of the cost, since the frame is destroyed
/// instead of unwound. Must not be used within a try block, since the handlers would not run.
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

/// An awaiter that returns the result of a task that has ended, or ends the coroutine with the
/// task's error as fail_with does.
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
