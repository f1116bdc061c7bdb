// SPDX-License-Identifier: Apache-2.0
// submission_awaiter: submits to a pool from a coroutine, which suspends to queue for a slot.
#pragma once

#include <gyre/pool/detail/capacity.hpp>
#include <gyre/pool/detail/task_builder.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

/// A coroutine that queues for a slot.
///
/// Lifetime: must not be destroyed between its wake-up and its resumption.
class slot_awaiter : resumption, slot_waiter {
 public:
  slot_awaiter(pool_core& pool, task_priority priority) noexcept
      : slot_waiter(&wake), pool_(&pool), priority_(priority) {}
  // Before it is awaited.
  slot_awaiter(slot_awaiter&& other) noexcept : slot_awaiter(*other.pool_, other.priority_) {}
  slot_awaiter& operator=(slot_awaiter&&) = delete;
  ~slot_awaiter() {
    if (context_ != nullptr) [[unlikely]]
      abandon();
  }

 protected:
  /// False if the coroutine is to queue for a slot.
  bool submit_now(task_builder builder);
  /// False if there is nothing to wait for.
  bool wait(std::coroutine_handle<> awaiting, const task_context& context) noexcept;
  /// Throws unless the callable was submitted, by this or submit_now(). The pool may be gone then.
  void finish(task_builder builder);

 private:
  struct cancel_wait {
    slot_awaiter* self;
    void operator()() const noexcept;
  };

  static void wake(slot_waiter& waiter) noexcept;
  void abandon() noexcept;

  pool_core* pool_;
  task_priority priority_;
  admission_result result_ = admission_result::must_wait;
  const task_context* context_ = nullptr;  // null unless it waits
  std::optional<inplace_stop_callback<cancel_wait>> on_stop_;
};

/// Awaited, submits a callable, and gives `result`.
template <class F, class Result = void>
class [[nodiscard]] submission_awaiter : slot_awaiter {
  using stored = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;

 public:
  template <class From>
  submission_awaiter(pool_core& pool, From&& callable, task_priority priority, stored result = {})
      : slot_awaiter(pool, priority),
        callable_(std::forward<From>(callable)),
        result_(std::move(result)) {}

  static constexpr bool executor_affine = true;
  bool await_ready() { return submit_now(task_builder(std::move(callable_))); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    return wait(awaiting, context_of(awaiting));
  }
  Result await_resume() {
    finish(task_builder(std::move(callable_)));
    if constexpr (!std::is_void_v<Result>) return std::move(result_);
  }

 private:
  F callable_;  // moved from once it is submitted
  [[no_unique_address]] stored result_;
};

}  // namespace gyre::detail
