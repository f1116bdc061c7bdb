// SPDX-License-Identifier: Apache-2.0
// How combinators that are coroutines see the context they run in, and change what stops them.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstdint>
#include <utility>

namespace gyre::detail {

/// Awaited, gives the context of the coroutine, without waiting.
class this_context {
 public:
  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <has_context Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    context_ = &context_of(awaiting);
    return gives_way(*context_, awaiting);
  }
  task_context& await_resume() const noexcept { return *context_; }

 private:
  task_context* context_ = nullptr;
};

/// For the rest of a coroutine's block, what it awaits is stopped by another token. The same thread
/// of control runs below, nothing else; so its context is changed in place.
class stopped_by {
 public:
  stopped_by(task_context& context, inplace_stop_token token) noexcept
      : context_(context),
        outer_(std::exchange(context.stop, token)),
        outer_cancellations_(context.cancellations) {}
  stopped_by(const stopped_by&) = delete;
  stopped_by& operator=(const stopped_by&) = delete;
  ~stopped_by() {
    context_.stop = outer_;
    // Counted since were cancellations by the inner token only.
    if (!outer_.stop_requested()) context_.cancellations = outer_cancellations_;
  }

 private:
  task_context& context_;
  inplace_stop_token outer_;
  std::uint32_t outer_cancellations_;
};

/// Awaited, runs a task to its end and leaves the result, or the error, in it.
template <class T>
class settle {
 public:
  explicit settle(task<T>& work) noexcept : work_(task_access::state(work)) {}

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> awaiting) {
    return work_.await_suspend(awaiting);
  }
  void await_resume() const noexcept { work_.end_without_continuation(); }

 private:
  task_state<T>& work_;
};

}  // namespace gyre::detail
