// SPDX-License-Identifier: Apache-2.0
// submission_awaiter: submits to a pool from a coroutine, which suspends while it waits for a slot.
#pragma once

#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/task_builder.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/sync/semaphore.hpp>

#include <coroutine>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

class pool_core;

/// The wait of a coroutine for a slot, in the line of the admission.
///
/// Lifetime: must not be destroyed between its wake-up and its resumption.
class slot_awaiter {
 public:
  slot_awaiter(pool_core& pool, task_priority priority) noexcept;
  slot_awaiter(slot_awaiter&& other) noexcept = default;  // valid only before it is awaited
  slot_awaiter& operator=(slot_awaiter&&) = delete;
  ~slot_awaiter() {
    if (pool_owner_ != nullptr) [[unlikely]]
      abandon_wait();
  }

 protected:
  /// Submits the callable. Returns false if the coroutine must wait for a slot.
  bool submit_now(task_builder builder);
  /// Joins the line. Returns false if the coroutine already has a slot.
  template <class Promise>
  bool wait(std::coroutine_handle<Promise> coroutine) noexcept {
    begin_wait();
    return acquire_.await_suspend(coroutine);
  }
  /// Submits the callable if the coroutine has waited. Throws unless finish() or submit_now() has
  /// submitted it.
  void finish(task_builder builder);

 private:
  void begin_wait() noexcept;
  void abandon_wait() noexcept;

  pool_core* pool_;
  task_priority priority_;
  admission_result result_ = admission_result::must_wait;
  std::shared_ptr<pool_core> pool_owner_;  // keeps the pool alive during the wait
  semaphore::permit_operation acquire_;
};

/// An awaitable that submits a callable and returns `result`.
template <class F, class Result = void>
class [[nodiscard]] submission_awaiter : slot_awaiter {
  using stored = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;

 public:
  template <class G>
  submission_awaiter(pool_core& pool, G&& callable, task_priority priority, stored result = {})
      : slot_awaiter(pool, priority),
        callable_(std::forward<G>(callable)),
        result_(std::move(result)) {}

  static constexpr bool executor_affine = true;
  bool await_ready() { return submit_now(task_builder(std::move(callable_))); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    return wait(coroutine);
  }
  Result await_resume() {
    finish(task_builder(std::move(callable_)));
    if constexpr (!std::is_void_v<Result>) return std::move(result_);
  }

 private:
  F callable_;  // empty after its submission
  [[no_unique_address]] stored result_;
};

}  // namespace gyre::detail
