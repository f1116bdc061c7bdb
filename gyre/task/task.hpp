// SPDX-License-Identifier: Apache-2.0
// The coroutine to start with.
//
//     gyre::task<int> twice(gyre::task<int> number) { co_return 2 * co_await std::move(number); }
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/await_transform.hpp>
#include <gyre/task/detail/frame_traits.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T = void>
class task;

namespace detail {

/// What a task<T> keeps for its T.
template <class T>
struct stored_result {
  using type = T;
};
template <class T>
struct stored_result<T&> {
  using type = T*;
};
template <>
struct stored_result<void> {
  struct type {};
};

/// Whether a result of type T, kept in a task, must be destroyed.
template <class T>
inline constexpr bool needs_destructor =
    !std::is_trivially_destructible_v<typename stored_result<T>::type>;

/// The part of a task that its coroutine's end deals with: who goes on, and how far the task is. One
/// word, which a coroutine that ends well only reads.
class task_end {
 public:
  // What it can say of itself at any time.
  bool empty() const noexcept { return word_ == 0; }
  bool not_started() const noexcept { return word_ == ready; }
  bool failed() const noexcept { return (word_ & has_error) != 0; }

  /// Null: the context says what follows.
  std::coroutine_handle<> continuation() const noexcept {
    return std::coroutine_handle<>::from_address(reinterpret_cast<void*>(word_ & ~flags));
  }
  /// Of a coroutine at its end: whether it has a result and a coroutine awaits it.
  bool succeeded_for_another() const noexcept { return (word_ & (has_error | ready)) == 0; }
  /// That coroutine. Whether the result has a flag is known from its type, and need not be looked at.
  template <class T>
  std::coroutine_handle<> continuation_after_success() const noexcept {
    return std::coroutine_handle<>::from_address(
        reinterpret_cast<void*>(word_ - (needs_destructor<T> ? has_value : 0)));
  }
  /// The coroutine has ended and nobody awaits it: until its result is taken it has one.
  void end_without_continuation() noexcept { word_ = failed() ? has_error : has_value; }
#if GYRE_ASYNC_BACKTRACE
  /// Leaves the coroutine to whoever may still refer to it: nobody destroys it any more.
  void abandon() noexcept { word_ = 0; }
#endif

 protected:
  // The address of the coroutine that goes on, and flags. Zero when the result was taken or the task
  // moved from. Not zero without a flag: a coroutine awaited by another, which has not ended, or
  // has ended just now with a result that needs no destructor.
  static constexpr std::uintptr_t has_error = 1;
  static constexpr std::uintptr_t has_value = 2;
  static constexpr std::uintptr_t ready = 4;  // a coroutine that nobody awaits
  static constexpr std::uintptr_t flags = 7;

  explicit task_end(std::uintptr_t begin) noexcept : word_(begin) {}

  std::uintptr_t word_;
};

/// Throws std::logic_error: a task was awaited that has no coroutine (any more).
[[noreturn, gnu::cold]] void throw_empty_task();
/// Resumes `first`, a coroutine that begins beside the one that starts it, and returns when it waits.
/// Such calls nest if it starts others in turn; beyond some depth it begins in the queue of `where`
/// instead, so that they use a bounded stack.
void start_nested(std::coroutine_handle<> first, executor& where) noexcept;
[[noreturn, gnu::cold, gnu::noinline]] void rethrow_and_clear(std::exception_ptr& error);

/// Puts the exception being handled at `error`.
[[gnu::cold]] void catch_into(std::exception_ptr* error) noexcept;

struct task_promise_base : awaiting_promise, slab_frame {
  task_end* end;
};

/// Frees the frame `self` of a coroutine that failed, or that nobody awaits, and returns what follows.
/// Out of line, so that the others need not keep their context for it.
[[gnu::noinline]] std::coroutine_handle<> end_specially(task_promise_base& promise,
                                                        std::coroutine_handle<> self) noexcept;

/// The end of a coroutine's way: frees the frame, whose result is with the task already, and goes on
/// with whoever waits for it.
template <class T>
struct task_final_awaiter {
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> self) const noexcept {
    task_promise_base& promise = self.promise();
#if GYRE_ASYNC_BACKTRACE
    promise.context->innermost = promise.awaited_by;
#endif
    // The same twice: each compiler needs fewer instructions for its own.
#ifdef __clang__
    const std::coroutine_handle<> next = promise.end->continuation();
    task_context& context = *promise.context;
    if (next) [[likely]] {
      self.destroy();
      return transfer_to(next);
    }
    promise.end->end_without_continuation();
    self.destroy();
    return transfer_to(context.finished(context));
#else
    const task_end& end = *promise.end;
    if (!end.succeeded_for_another()) [[unlikely]]
      return transfer_to(end_specially(promise, self));
    const std::coroutine_handle<> next = end.continuation_after_success<T>();
    self.destroy();
    return transfer_to(next);
#endif
  }
  static constexpr void await_resume() noexcept {}
};

template <class T>
class task_state;

template <class T>
class task_promise_result : public task_promise_base {
 public:
  template <class U = T>
    requires std::convertible_to<U, T>
  void return_value(U&& value) noexcept(std::is_nothrow_constructible_v<T, U>) {
    static_cast<task_state<T>*>(this->end)->emplace(std::forward<U>(value));
  }
  void unhandled_exception() noexcept { static_cast<task_state<T>*>(this->end)->fail(); }
};

template <>
class task_promise_result<void> : public task_promise_base {
 public:
  void return_void() noexcept {}
  void unhandled_exception() noexcept;
};

/// A task's coroutine while it has not finished, its result from then on, and how to await it.
template <class T>
class task_state : public task_end {
 public:
  class promise_type : public task_promise_result<T> {
   public:
    task<T> get_return_object() noexcept;
    static constexpr std::suspend_always initial_suspend() noexcept { return {}; }
    static constexpr task_final_awaiter<T> final_suspend() noexcept { return {}; }
  };
  using handle = std::coroutine_handle<promise_type>;

  task_state() noexcept : task_end(0), coroutine_() {}
  explicit task_state(handle coroutine) noexcept : task_end(ready), coroutine_(coroutine) {}
  task_state(task_state&& other) noexcept : task_end(other.word_) { take(other); }
  task_state& operator=(task_state&& other) noexcept {
    if (this != &other) {
      reset();
      word_ = other.word_;
      take(other);
    }
    return *this;
  }
  ~task_state() { reset(); }

  constexpr bool await_ready() const noexcept { return false; }
  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> awaiting) {
    if (word_ != ready) [[unlikely]]
      throw_empty_task();
    word_ = reinterpret_cast<std::uintptr_t>(awaiting.address());
    promise_type& promise = coroutine_.promise();
    promise.end = this;
    promise.context = &context_of(awaiting);
#if GYRE_ASYNC_BACKTRACE
    if constexpr (std::derived_from<Promise, promise_base>)
      promise.awaited_by = &awaiting.promise();
#endif
    return transfer_to(coroutine_);
  }
  T await_resume() { return take_result(); }

  /// Lets it run in a context of its own until it waits; context.finished() tells the end.
  void start(task_context& context) { resume(prepare(context)); }
  /// The same, but leaves it to the caller to resume the coroutine.
  std::coroutine_handle<> prepare(task_context& context) {
    if (word_ != ready) [[unlikely]]
      throw_empty_task();
    coroutine_.promise().end = this;
    coroutine_.promise().context = &context;
#if GYRE_ASYNC_BACKTRACE
    context.innermost = &coroutine_.promise();
    context.outermost = this;
    context.destroy = &destroy_failed;
#endif
    return coroutine_;
  }
  /// The same for a child of a coroutine, which starts later where such starts nest very deep.
  void start_child(task_context& context) { start_nested(prepare(context), *context.where); }

  /// The result of a coroutine that has finished, once.
  T take_result() {
    if (failed()) [[unlikely]]
      rethrow();
    if constexpr (std::is_void_v<T>) {
      word_ = 0;
    } else if constexpr (std::is_reference_v<T>) {
      word_ = 0;
      return static_cast<T>(*value_);
    } else if constexpr (std::is_trivially_destructible_v<T>) {
      word_ = 0;
      return std::move(value_);
    } else {
      struct taken {
        task_state& state;
        ~taken() {
          std::destroy_at(&state.value_);
          state.word_ = 0;
        }
      } guard{*this};
      return std::move(value_);
    }
  }

 private:
#if GYRE_ASYNC_BACKTRACE
  static void destroy_failed(task_end& task) noexcept {
    auto& self = static_cast<task_state&>(task);
    self.coroutine_.destroy();
    self.fail();
    self.end_without_continuation();
  }
#endif
  friend task_promise_result<T>;
  using value_type = typename stored_result<T>::type;

  template <class U>
  void emplace(U&& value) {
    if constexpr (std::is_reference_v<T>) {
      value_ = std::addressof(value);
    } else {
      if constexpr (needs_destructor<T>) {
        if ((word_ & has_value) != 0) [[unlikely]]
          drop_value();
      }
      std::construct_at(&value_, std::forward<U>(value));
      if constexpr (needs_destructor<T>) word_ |= has_value;
    }
  }
  // A local's destructor threw behind a co_return, and its handler returns another value.
  [[gnu::cold, gnu::noinline]] void drop_value() noexcept {
    std::destroy_at(&value_);
    word_ &= ~has_value;
  }
  // A local's destructor may throw when the value is there already.
  [[gnu::cold, gnu::noinline]] void fail() noexcept {
    if ((word_ & has_value) != 0) drop_value();
    catch_into(&error_);
    word_ |= has_error;
  }

  [[noreturn, gnu::cold, gnu::noinline]] void rethrow() {
    word_ = 0;
    rethrow_and_clear(error_);
  }

  void take(task_state& other) noexcept {
    if (failed()) {
      std::construct_at(&error_, std::move(other.error_));
      std::destroy_at(&other.error_);
    } else if ((word_ & has_value) != 0) {
      std::construct_at(&value_, std::move(other.value_));
      std::destroy_at(&other.value_);
    } else {
      coroutine_ = word_ == ready ? other.coroutine_ : handle();  // the latter for GCC's warnings
    }
    other.word_ = 0;
  }
  void reset() noexcept {
    if (word_ != 0) [[unlikely]]
      clear();
  }
  [[gnu::noinline]] void clear() noexcept {
    if (failed()) {
      std::destroy_at(&error_);
    } else if ((word_ & has_value) != 0) {
      std::destroy_at(&value_);
    } else {
      coroutine_.destroy();
    }
    word_ = 0;
  }

  union {
    handle coroutine_;
    value_type value_;
    std::exception_ptr error_;
  };
};

/// How the rest of gyre reaches into a task.
struct task_access {
  template <class T>
  static task_state<T>& state(task<T>& of) noexcept {
    return of;
  }
};

}  // namespace detail

#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::coro_await_elidable)
#define GYRE_CORO_AWAIT_ELIDABLE [[clang::coro_await_elidable]]
#endif
#endif
#ifndef GYRE_CORO_AWAIT_ELIDABLE
#define GYRE_CORO_AWAIT_ELIDABLE
#endif

/// A coroutine that runs when it is awaited, and then gives a T (a value, a reference or nothing) or
/// throws what left it.
///
/// Awaiting it runs it on the spot, by a jump and without allocating; the coroutine that awaits goes
/// on when it has finished, on the executor where that is: see resume_on(). It is awaited once. To
/// start one from ordinary code use sync_wait(), spawn() or a scope.
///
/// Every await within it ends on its executor, also of awaitables that are not gyre's: resumed on a
/// thread that is not running the executor, it is posted there, which allocates nothing. An awaiter
/// whose await_suspend() takes only the handle of one promise type of gyre is the exception.
///
/// A task that was never awaited may be dropped: its coroutine is destroyed. So may a coroutine that
/// waits, with all that it awaits, but not one that is in an executor's queue (of schedule() and
/// yield(), or because its wait is over). Awaiting an empty task (moved from, or awaited before) throws
/// std::logic_error. One thread at a time; must not be moved or destroyed while it runs.
///
/// Calling a coroutine takes its frame from the thread's slab (some nanoseconds, no lock; the
/// frame goes back when the coroutine ends, from any thread), or from an allocator given as in
/// `task<int> f(std::allocator_arg_t, Allocator, …)`. Throws std::bad_alloc.
///
/// Parameters: a coroutine keeps copies of those it takes by value, and only references to others,
/// which must live until it ends; a lambda's captures are not kept at all: see invoke().
template <class T>
class [[nodiscard]] GYRE_CORO_AWAIT_ELIDABLE task : private detail::task_state<T> {
  static_assert(!std::is_rvalue_reference_v<T>,
                "a task gives a value, an lvalue reference or void");
  static_assert(std::is_reference_v<T> || alignof(typename detail::stored_result<T>::type) <= 16,
                "compilers do not align coroutine frames beyond 16 bytes");
  using state = detail::task_state<T>;
  friend detail::task_access;

 public:
  using value_type = T;
  using promise_type = typename state::promise_type;

  /// An empty task.
  task() noexcept = default;
  task(task&& other) noexcept = default;
  task& operator=(task&& other) noexcept = default;
  ~task() = default;

  /// Whether there is something to await.
  [[nodiscard]] bool valid() const noexcept { return this->not_started(); }

  static constexpr bool executor_affine = true;
  using state::await_ready;
  using state::await_resume;
  using state::await_suspend;

 private:
  friend promise_type;
  explicit task(std::coroutine_handle<promise_type> coroutine) noexcept : state(coroutine) {}
};

namespace detail {

template <class T>
task<T> task_state<T>::promise_type::get_return_object() noexcept {
  return task<T>(handle::from_promise(*this));
}

inline void task_promise_result<void>::unhandled_exception() noexcept {
  static_cast<task_state<void>*>(end)->fail();
}

}  // namespace detail
}  // namespace gyre
