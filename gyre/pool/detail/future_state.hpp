// SPDX-License-Identifier: Apache-2.0
// What a submitted task and its future have in common: how the task ended, who waits for that, and
// who frees it. The pool's side settles it once; the future's side waits, or turns away.
//
// Both sides meet in one word whose bits are only ever set (but for `sleeps`), so whoever sets his
// bit learns in the same step whether the other was there before: each end has one author.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/droppable_operation.hpp>
#include <gyre/base/slab.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::detail {

/// A coroutine that waits for an outcome, and where it goes on.
struct outcome_waiter : resumption {
  executor* where = nullptr;
};

/// The part that does not depend on the result.
class outcome_base : public droppable_operation {
 public:
  outcome_base(const outcome_base&) = delete;
  outcome_base& operator=(const outcome_base&) = delete;

  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return ::operator new(bytes, alignment);
  }
  static void operator delete(void* memory, std::size_t bytes) noexcept {
    slab_deallocate(memory, bytes);
  }
  static void operator delete(void* memory, std::size_t bytes,
                              std::align_val_t alignment) noexcept {
    ::operator delete(memory, bytes, alignment);
  }

  // The future's side, by one thread at a time.

  bool settled() const noexcept {
    // acquire: pairs with the release in settle().
    return (word_.load(std::memory_order_acquire) & is_settled) != 0;
  }
  /// Blocks until it is settled (true) or `deadline` has passed; the end of time: however long it
  /// takes. Helps meanwhile if the thread can. Throws std::system_error
  /// (std::errc::resource_deadlock_would_occur) if the wait has no deadline, and the task is one
  /// that this very thread is running, or that no thread of its pool has stack left to run.
  bool wait_until(steady_time deadline);
  /// The pool that runs it; before a coroutine waits for it.
  void set_pool(const void* pool) noexcept { pool_ = pool; }
  const void* pool() const noexcept { return pool_; }
  /// Lets `waiter` be resumed at the end. False if it need not wait: settled, or cancelled.
  bool await(outcome_waiter& waiter) noexcept;
  /// Any thread, once, while the future exists: ends the wait of a coroutine, also of one that is
  /// about to wait. True: the caller resumes it.
  bool cancel_wait() noexcept;
  /// The future's last word: nobody waits any more.
  void abandon() noexcept;

 protected:
  using droppable_operation::droppable_operation;
  ~outcome_base() = default;

  /// Says that the task has ended; afterwards it may be gone.
  void settle() noexcept;

  /// Marks the task as one that the calling thread is running. In the place of a queue's link,
  /// which a task that runs has no use for.
  class running {
   public:
    explicit running(outcome_base& task) noexcept;
    running(const running&) = delete;
    running& operator=(const running&) = delete;
    ~running();

   private:
    outcome_base& task_;
  };

 private:
  static constexpr std::uint32_t is_settled = 1;
  static constexpr std::uint32_t is_abandoned = 2;  // by the future: the other side frees it
  static constexpr std::uint32_t is_awaited = 4;    // by the coroutine at waiter_
  static constexpr std::uint32_t is_cancelled =
      8;                                       // which resumes, or does not wait in the first place
  static constexpr std::uint32_t sleeps = 16;  // a thread, on the word

  virtual void free() noexcept = 0;
  bool runs_below() const noexcept;
  void sleep_until(steady_time deadline) noexcept;

  atomic<std::uint32_t> word_{0};
  union {
    const void* pool_ = nullptr;  // where a thread waits, or nobody
    outcome_waiter* waiter_;      // where a coroutine does
  };
};

/// How a task with a result of type T ended. That it was dropped needs no memory and cannot fail.
template <class T>
class outcome : public outcome_base {
 public:
  /// Once, when it is settled: the result, or what the task threw; std::errc::operation_canceled if
  /// it was dropped.
  T take() {
    if (auto* const error = std::get_if<std::exception_ptr>(&end_)) {
      rethrow(std::move(*error));
    }
    auto* const value = std::get_if<stored>(&end_);
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
  using outcome_base::outcome_base;
  ~outcome() = default;

  /// Keeps what `called` returns or throws.
  template <class F>
  void keep_result_of(F& called) noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        called();
        end_.template emplace<stored>();
      } else if constexpr (std::is_reference_v<T>) {
        end_.template emplace<stored>(&static_cast<T>(called()));
      } else {
        end_.template emplace<stored>(stored{called()});
      }
    } catch (...) {
      end_.template emplace<std::exception_ptr>(std::current_exception());
    }
  }

 private:
  // A type of its own: a task may give an exception_ptr.
  struct stored {
    [[no_unique_address]] typename stored_result<T>::type value;
  };

  [[noreturn, gnu::cold]] static void rethrow(std::exception_ptr error) {
    std::rethrow_exception(std::move(error));
  }

  std::variant<std::monostate, stored, std::exception_ptr> end_;
};

}  // namespace gyre::detail
