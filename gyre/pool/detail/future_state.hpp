// SPDX-License-Identifier: Apache-2.0
// future_state: the state that a submitted task shares with its future.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/task.hpp>

#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

/// A coroutine that waits for the end of a task, and its context.
struct future_state_waiter : resumption {
  const task_context* context = nullptr;  // null until the coroutine has suspended
};

/// The part of a future's state that does not depend on the result's type. The bits of one word
/// record which side came first; the side that comes second completes the transition. Bits are only
/// set, except that `sleeping` is also cleared.
///
///   state     | task ends: finish()        | await()         | cancel_wait()  | abandon()
///   ----------|----------------------------|-----------------|----------------|-------------------
///   running   | finished                   | awaited         | cancelled      | abandoned
///   awaited   | finished, resumes waiter   | -               | the caller     | abandoned
///             |                            |                 | resumes waiter |
///   cancelled | finished                   | does not wait   | -              | abandoned
///   sleeping  | finished, wakes the thread | -               | -              | -
///   abandoned | frees the state            | -               | -              | -
///   finished  | -                          | does not wait   | no effect      | frees the state
///
/// Thread-safety: one thread uses the task's side, one the future's; any may call cancel_wait().
class future_state_base : public droppable_operation, public slab_object {
 public:
  // The functions below belong to the future's side.

  bool is_finished() const noexcept {
    // acquire: pairs with the release in finish().
    return (word_.load(std::memory_order_acquire) & finished_bit) != 0;
  }
  /// Blocks until the task has finished (true) or `deadline` has passed (false); steady_time::max()
  /// means no deadline. Runs other tasks meanwhile if the thread has a helper. A wait without a
  /// deadline throws std::system_error (std::errc::resource_deadlock_would_occur) if the calling
  /// thread itself runs the task, or if no thread of the task's pool has stack left to run it.
  bool wait_until(steady_time deadline);
  /// Sets the pool that runs the task. Must be called before a coroutine waits for the task.
  void set_pool(const void* pool) noexcept { pool_ = pool; }
  const void* pool() const noexcept { return pool_; }
  /// Makes finish() resume `waiter`. Returns false if the coroutine must not wait: the task has
  /// finished, or the wait was cancelled.
  bool await(future_state_waiter& waiter) noexcept;
  /// Ends or prevents the wait of a coroutine. May be called once, while the future exists. If it
  /// returns true, the caller must resume the coroutine.
  bool cancel_wait() noexcept;
  /// Ends the future's side. Must be its last call.
  void abandon() noexcept;

 protected:
  using droppable_operation::droppable_operation;
  ~future_state_base() = default;

  /// Called when the task has ended. May destroy this object.
  void finish() noexcept;

  /// The scope in which the calling thread runs the task.
  class run_scope {
   public:
    explicit run_scope(future_state_base& task) noexcept;
    run_scope& operator=(run_scope&&) = delete;
    ~run_scope();

   private:
    future_state_base& task_;
  };

 private:
  static constexpr std::uint32_t finished_bit = 1;
  static constexpr std::uint32_t abandoned_bit = 2;  // the future is gone: finish() frees the state
  static constexpr std::uint32_t awaited_bit = 4;    // the coroutine of waiter_ waits
  static constexpr std::uint32_t cancelled_bit = 8;
  static constexpr std::uint32_t sleeping_bit = 16;  // a thread sleeps on word_

  virtual void free() noexcept = 0;
  bool is_run_by_this_thread() const noexcept;
  void sleep_until(steady_time deadline) noexcept;

  atomic<std::uint32_t> word_{0};
  atomic<std::uint32_t> runner_{0};  // the number of the thread that runs the task; 0: none
  union {
    const void* pool_ = nullptr;   // the pool of the task; valid until a coroutine waits
    future_state_waiter* waiter_;  // the coroutine that waits; valid once one waits
  };
};

/// The state of a task with a result of type T. Dropping the task allocates no memory.
template <class T>
class future_state : public future_state_base {
 public:
  /// Returns the result of the finished task or throws its exception; throws
  /// std::errc::operation_canceled if the task was dropped. May be called once.
  T take() {
    if (auto* const error = std::get_if<std::exception_ptr>(&result_)) {
      rethrow(std::move(*error));
    }
    auto* const value = std::get_if<stored_value>(&result_);
    if (value == nullptr) throw_error(std::errc::operation_canceled);
    if constexpr (std::is_void_v<T>) {
      return;
    } else if constexpr (std::is_reference_v<T>) {
      return *value->value;
    } else {
      return std::move(value->value);
    }
  }

 protected:
  using future_state_base::future_state_base;
  ~future_state() = default;

  /// Calls `callable` and stores its result or exception.
  template <class F>
  void store_result_of(F& callable) noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        callable();
        result_.template emplace<stored_value>();
      } else if constexpr (std::is_reference_v<T>) {
        result_.template emplace<stored_value>(&static_cast<T>(callable()));
      } else {
        result_.template emplace<stored_value>(stored_value{callable()});
      }
    } catch (...) {
      result_.template emplace<std::exception_ptr>(std::current_exception());
    }
  }

 private:
  // Wraps the value, so that the alternatives of the variant differ even if the task returns a
  // std::exception_ptr.
  struct stored_value {
    [[no_unique_address]] stored_result_t<T> value;
  };

  [[noreturn, gnu::cold]] static void rethrow(std::exception_ptr error) {
    std::rethrow_exception(std::move(error));
  }

  std::variant<std::monostate, stored_value, std::exception_ptr> result_;
};

}  // namespace gyre::detail
