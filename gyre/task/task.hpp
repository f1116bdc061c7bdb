// SPDX-License-Identifier: Apache-2.0
// task: a coroutine that runs when it is awaited.
//
//     gyre::task<int> twice(gyre::task<int> number) { co_return 2 * co_await std::move(number); }
#pragma once

#include <gyre/task/detail/misuse.hpp>
#include <gyre/task/detail/task_state.hpp>

#include <concepts>
#include <coroutine>
#include <type_traits>

namespace gyre {

#if defined(__has_cpp_attribute)
#if __has_cpp_attribute(clang::coro_await_elidable)
#define GYRE_CORO_AWAIT_ELIDABLE [[clang::coro_await_elidable]]
#endif
#endif
#ifndef GYRE_CORO_AWAIT_ELIDABLE
#define GYRE_CORO_AWAIT_ELIDABLE
#endif

/// A coroutine that runs when it is awaited, once, and returns a T (a value, a reference or
/// nothing). To start a task from ordinary code use sync_wait(), spawn() or a scope.
///
/// Thread-safety: one thread at a time. A task runs on the executor of the coroutine that awaits
/// it: after each wait the task resumes there, even after foreign awaitables (except those whose
/// await_suspend() accepts only the handle of one promise type). resume_on() in a task moves the
/// awaiting coroutines as well.
/// Lifetime: parameters by reference must outlive the coroutine, and so must the captures of a
/// lambda: see invoke(). A suspended coroutine may be destroyed, with all that it awaits, on the
/// thread of its executor, if the wait allows it (see its Lifetime) and no executor has the
/// coroutine in its queue, as after schedule(), yield() or the end of a wait. A task must not be
/// moved once it is awaited, nor destroyed while its coroutine runs.
/// Errors: awaiting an empty task (moved from, or awaited before) throws std::logic_error. Calling
/// the coroutine throws std::bad_alloc. A coroutine that should return a T but ends without
/// co_return fails with std::logic_error where backtraces are on (async_backtrace.hpp); elsewhere
/// the behaviour is undefined, as in the language. Clang warns of that (-Wreturn-type), GCC does
/// not.
/// Complexity: the frame comes from the thread's slab (some nanoseconds, no lock), or from an
/// allocator as in `task<int> f(std::allocator_arg_t, Allocator, …)`. Awaiting allocates nothing.
template <class T>
class [[nodiscard]] GYRE_CORO_AWAIT_ELIDABLE task : private detail::task_state<T> {
  static_assert(!std::is_rvalue_reference_v<T>,
                "a task gives a value, an lvalue reference or void");
  static_assert(std::is_reference_v<T> || alignof(detail::stored_result_t<T>) <= 16,
                "compilers do not align coroutine frames beyond 16 bytes");
  using state = detail::task_state<T>;
  friend detail::task_access;

 public:
  using value_type = T;
  using promise_type = typename state::promise_type;

  /// Makes an empty task.
  task() noexcept = default;
  task(task&& other) noexcept = default;
  task& operator=(task&& other) noexcept = default;
  // This is no copy constructor, but a better match than the move constructor for a task that is an
  // lvalue; it explains the mistake.
  template <std::same_as<task> Self>
  GYRE_MISUSE("a task is awaited once: hand it over by std::move(task)")
  task(Self&) {}
  ~task() = default;

  /// Returns whether the task can be awaited.
  [[nodiscard]] bool valid() const noexcept { return this->is_unawaited(); }

  static constexpr bool executor_affine = true;
  using state::await_ready;
  using state::await_resume;
  using state::await_suspend;

 private:
  friend promise_type;
  task(std::coroutine_handle<promise_type> coroutine, bool is_large) noexcept
      : state(coroutine, is_large) {}
};

}  // namespace gyre
