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
  const task_context* context = nullptr;  // once it has suspended
};

/// The part of a future's state that does not depend on the result. The bits of one word tell which
/// side came first, and the side that comes second completes the transition. Bits are only set,
/// except that `sleeping` is also cleared.
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
  // These belong to the future's side.

  bool is_finished() const noexcept {
    // acquire: pairs with the release in finish().
    return (word_.load(std::memory_order_acquire) & finished_bit) != 0;
  }
  /// Blocks until the task has finished (true) or `deadline` has passed; steady_time::max() is no
  /// deadline. Helps meanwhile if the thread can. Throws std::system_error
  /// (std::errc::resource_deadlock_would_occur) if the wait has no deadline, and the task is one
  /// that this very thread is running, or that no thread of its pool has stack left to run.
  bool wait_until(steady_time deadline);
  /// Sets the pool that runs the task; before a coroutine waits for the task.
  void set_pool(const void* pool) noexcept { pool_ = pool; }
  const void* pool() const noexcept { return pool_; }
  /// Lets finish() resume `waiter`. False if it does not wait: finished, or cancelled.
  bool await(future_state_waiter& waiter) noexcept;
  /// Ends the wait of a coroutine, or prevents it; once, while the future exists. If true, the
  /// caller resumes the coroutine.
  bool cancel_wait() noexcept;
  /// Ends the future's side; its last call.
  void abandon() noexcept;

 protected:
  using droppable_operation::droppable_operation;
  ~future_state_base() = default;

  /// Called when the task has ended. Afterwards this object may be gone.
  void finish() noexcept;

  /// The scope in which the calling thread runs the task.
  class running {
   public:
    explicit running(future_state_base& task) noexcept;
    running& operator=(running&&) = delete;
    ~running();

   private:
    future_state_base& task_;
  };

 private:
  static constexpr std::uint32_t finished_bit = 1;
  static constexpr std::uint32_t abandoned_bit = 2;  // the future is gone: finish() frees this
  static constexpr std::uint32_t awaited_bit = 4;    // the coroutine at waiter_ waits
  static constexpr std::uint32_t cancelled_bit = 8;
  static constexpr std::uint32_t sleeping_bit = 16;  // a thread sleeps on the word

  virtual void free() noexcept = 0;
  bool is_run_by_this_thread() const noexcept;
  void sleep_until(steady_time deadline) noexcept;

  atomic<std::uint32_t> word_{0};
  atomic<std::uint32_t> runner_{0};  // the number of the thread that runs the task
  union {
    const void* pool_ = nullptr;   // until a coroutine waits
    future_state_waiter* waiter_;  // once a coroutine waits
  };
};

/// The state of a task with a result of type T. Dropping the task needs no memory.
template <class T>
class future_state : public future_state_base {
 public:
  /// Once, when the task has finished: returns its result, or throws its exception, or
  /// std::errc::operation_canceled if it was dropped.
  T take() {
    if (auto* const error = std::get_if<std::exception_ptr>(&result_)) {
      rethrow(std::move(*error));
    }
    auto* const value = std::get_if<stored>(&result_);
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

  /// Stores the result or the exception of `callable`.
  template <class F>
  void store_result_of(F& callable) noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        callable();
        result_.template emplace<stored>();
      } else if constexpr (std::is_reference_v<T>) {
        result_.template emplace<stored>(&static_cast<T>(callable()));
      } else {
        result_.template emplace<stored>(stored{callable()});
      }
    } catch (...) {
      result_.template emplace<std::exception_ptr>(std::current_exception());
    }
  }

 private:
  // A type of its own: a task may give an exception_ptr.
  struct stored {
    [[no_unique_address]] stored_result_t<T> value;
  };

  [[noreturn, gnu::cold]] static void rethrow(std::exception_ptr error) {
    std::rethrow_exception(std::move(error));
  }

  std::variant<std::monostate, stored, std::exception_ptr> result_;
};

}  // namespace gyre::detail
