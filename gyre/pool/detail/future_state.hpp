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

/// The part that does not depend on the result. The bits of one word, which are only ever set (but
/// for `sleeping`), say who came first; the side that comes second completes the transition.
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
  // The future's side.

  bool is_finished() const noexcept {
    // acquire: pairs with the release in finish().
    return (word_.load(std::memory_order_acquire) & finished_bit) != 0;
  }
  /// Blocks until the task has finished (true) or `deadline` has passed; steady_time::max() is no
  /// deadline. Helps meanwhile if the thread can. Throws std::system_error
  /// (std::errc::resource_deadlock_would_occur) if the wait has no deadline, and the task is one
  /// that this very thread is running, or that no thread of its pool has stack left to run.
  bool wait_until(steady_time deadline);
  /// The pool that runs it; before a coroutine waits for it.
  void set_pool(const void* pool) noexcept { pool_ = pool; }
  const void* pool() const noexcept { return pool_; }
  /// Lets finish() resume `waiter`. False if it does not wait: finished, or cancelled.
  bool await(future_state_waiter& waiter) noexcept;
  /// Once, while the future exists: ends a wait, or prevents it. True: the caller resumes it.
  bool cancel_wait() noexcept;
  /// The future's last call.
  void abandon() noexcept;

 protected:
  using droppable_operation::droppable_operation;
  ~future_state_base() = default;

  /// The task has ended; afterwards it may be gone.
  void finish() noexcept;

  /// Marks the task as run by the calling thread.
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
  static constexpr std::uint32_t abandoned_bit = 2;  // by the future: the task's side frees it
  static constexpr std::uint32_t awaited_bit = 4;    // by the coroutine at waiter_
  static constexpr std::uint32_t cancelled_bit = 8;
  static constexpr std::uint32_t sleeping_bit = 16;  // a thread sleeps on the word

  virtual void free() noexcept = 0;
  bool runs_below() const noexcept;
  void sleep_until(steady_time deadline) noexcept;

  atomic<std::uint32_t> word_{0};
  atomic<std::uint32_t> runner_{0};  // the number of the thread that runs the task
  union {
    const void* pool_ = nullptr;   // until a coroutine waits
    future_state_waiter* waiter_;  // from then on
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
