// SPDX-License-Identifier: Apache-2.0
// fork: starts a child of a coroutine at once; the coroutine awaits it later.
//
//     gyre::task<int> fibonacci(int n) {
//       if (n < 2) co_return n;
//       auto left = co_await gyre::fork(fibonacci(n - 1));  // another thread may take it
//       int right = co_await fibonacci(n - 2);
//       co_return co_await std::move(left) + right;
//     }
//
// Source: Frigo, Leiserson and Randall, "The implementation of the Cilk-5 multithreaded language",
// 1998 (spawn and sync).
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/forked_child.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

template <class T>
class fork_awaiter;

}  // namespace detail

/// A child that `co_await fork(…)` has started. Awaited, once, it returns the child's result or
/// throws its exception. Several handles may be awaited in any order; the reverse of the order of
/// the forks is the fastest. The handle must stay in place, in the coroutine's frame.
///
/// The handle must be awaited on every path, even after an exception, because a destructor cannot
/// wait. If the child has not ended when the handle is destroyed, the program ends with a message.
/// So if an exception may be thrown between the fork and the await, as by every wait after a stop,
/// await `join()` by finally(), or use when_all().
///
/// Thread-safety: one thread at a time. The coroutine that awaits the handle resumes on its own
/// executor.
/// Lifetime: the coroutine must not be destroyed before the child has ended.
/// Errors: awaiting the handle again, or while another coroutine awaits it, throws
/// std::logic_error. The exception of a child whose handle is only joined is dropped.
/// Complexity: some 300 bytes of the coroutine's frame. Awaiting a child that no other thread has
/// taken needs no atomic operation.
template <class T>
class [[nodiscard]] forked : detail::forked_child {
 public:
  using value_type = T;

  ~forked() { check_ended(); }

  /// Asks the child to stop. Returns false if the child was asked before. A stop of the coroutine
  /// also reaches the child, and so does a stop of the wait alone, as by with_timeout(child.join(),
  /// 1s).
  using detail::forked_child::request_stop;
  /// Awaited, waits until the child has ended, even after a stop. The child's result stays in the
  /// handle.
  [[nodiscard]] auto join() noexcept { return detail::forked_child_end(*this); }

  static constexpr bool executor_affine = true;
  bool await_ready() const noexcept { return has_ended(); }
  template <class Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    return detail::transfer_to(wait(coroutine));
  }
  T await_resume() {
    end_wait();
    auto& state = detail::task_access::state(work_);
    if (state.empty()) [[unlikely]]
      detail::throw_empty_task();
    if (state.failed()) [[unlikely]]
      std::rethrow_exception(detail::translate_child_error(parent_context(), state.take_error()));
    return state.take_result();
  }

 private:
  friend detail::fork_awaiter<T>;
  forked(const detail::forking_coroutine& origin, task<T>&& work) noexcept
      : forked_child(origin), work_(std::move(work)) {
    start(detail::task_access::state(work_).prepare(context()));
  }

  task<T> work_;
};

namespace detail {

/// The awaitable of fork(). The coroutine does not wait: the constructor of the handle, which is in
/// its final place, starts the child.
template <class T>
class [[nodiscard]] fork_awaiter {
 public:
  explicit fork_awaiter(task<T>&& work) noexcept : work_(std::move(work)) {}

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> parent) {
    if (!work_.valid()) throw_empty_task();
    parent_ = forking_coroutine(parent);
    return false;
  }
  forked<T> await_resume() noexcept { return forked<T>(parent_, std::move(work_)); }

 private:
  task<T> work_;
  forking_coroutine parent_;
};

}  // namespace detail

/// Awaited, starts `awaitable` as a concurrent child of the coroutine and returns the handle with
/// which the coroutine awaits it: `auto child = co_await gyre::fork(…)`. The coroutine does not
/// wait.
///
/// On an executor that forks, such as a thread_pool that steals, another thread may take the child;
/// if none does, the child runs when its handle is awaited, or when the thread has nothing newer to
/// do. On other executors the child starts at once, up to its first wait. It begins with the
/// coroutine's executor, stop token and task-local values, as a child of when_all() does, but its
/// error stops no other work.
///
/// Errors: std::logic_error for an empty task.
/// Complexity: no allocation but a frame if `awaitable` is not a task.
template <awaitable Awaitable>
[[nodiscard]] auto fork(Awaitable awaitable) {
  return detail::fork_awaiter<task_result_t<Awaitable>>(as_task(std::move(awaitable)));
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never fork(detail::misused_awaitable explained);

}  // namespace gyre
