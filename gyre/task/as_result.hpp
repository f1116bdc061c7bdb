// SPDX-License-Identifier: Apache-2.0
// as_result: awaits an operation and returns its exception, of any type, as a value.
//
//     std::expected<reply, std::exception_ptr> got = co_await gyre::as_result(ask(server));
#pragma once

#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <expected>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

/// Awaiters of which only await_resume() may throw.
template <class Awaiter>
concept waits_without_throw =
    has_result<Awaiter> && resumes_on_executor<Awaiter> &&
    requires(Awaiter& awaiter, std::coroutine_handle<task<>::promise_type> coroutine) {
      { awaiter.await_ready() } noexcept;
      { awaiter.await_suspend(coroutine) } noexcept;
    };
template <class T>
class task_result_awaiter;
template <class Awaiter>
class operation_result_awaiter;

}  // namespace detail

/// Awaits `awaitable` and returns a std::expected of its result, or of the exception with which it
/// failed, as when_all_ready() does for several awaitables. A result that is a reference is held in
/// a std::reference_wrapper. To get failures of the system as std::error_code use as_expected().
///
/// Lifetime: rvalues are moved in; lvalues must outlive the await.
/// Errors: throws gyre::operation_cancelled, as a stop is not a result, and std::logic_error for an
/// empty task; no other exceptions.
/// Complexity: no allocation for a task, whose exception is moved without a throw, and for single
/// operations of gyre (a read, a sleep); a coroutine frame for other awaitables.
template <awaitable Awaitable>
[[nodiscard]] auto as_result(Awaitable&& awaitable) {
  using awaiter = std::remove_cvref_t<decltype(detail::awaiter_of(std::declval<Awaitable>()))>;
  // An awaiter that operator co_await returns may refer to the awaitable, and would outlive it.
  constexpr bool awaits_itself = std::is_same_v<awaiter, std::remove_cvref_t<Awaitable>>;
  if constexpr (!detail::is_task<awaiter> && awaits_itself &&
                detail::waits_without_throw<awaiter>) {
    return detail::operation_result_awaiter<Awaitable>(std::forward<Awaitable>(awaitable));
  } else {
    return detail::task_result_awaiter<task_result_t<Awaitable>>(
        as_task(std::forward<Awaitable>(awaitable)));
  }
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never as_result(detail::misused_awaitable explained);

namespace detail {

template <class T>
using result_of_t =
    std::expected<std::conditional_t<std::is_void_v<T>, void, element_t<T>>, std::exception_ptr>;

/// Calls `take`, which returns a T or throws, and returns its result. Returns every exception but
/// gyre::operation_cancelled as a value.
template <class T, class Take>
result_of_t<T> catch_error(Take&& take) {
  try {
    if constexpr (std::is_void_v<T>) {
      take();
      return {};
    } else {
      return take();
    }
  } catch (const operation_cancelled&) {
    throw;
  } catch (...) {
    return std::unexpected(std::current_exception());
  }
}

/// The awaitable of as_result() for a task. It moves the task's exception without a throw.
template <class T>
class [[nodiscard]] task_result_awaiter : public suspends_always {
 public:
  explicit task_result_awaiter(task<T>&& work) noexcept : work_(std::move(work)) {}

  template <has_context Promise>
  GYRE_INLINE_IN_GCC std::coroutine_handle<> await_suspend(
      std::coroutine_handle<Promise> coroutine) {
    return state().await_suspend(coroutine);
  }
  result_of_t<T> await_resume() {
    state().end_without_continuation();
    if (std::exception_ptr error = state().take_error()) [[unlikely]] {
      if (error == cancellation()) std::rethrow_exception(std::move(error));
      return std::unexpected(std::move(error));
    }
    return catch_error<T>([this]() -> T { return state().take_result(); });
  }

 private:
  task_state<T>& state() noexcept { return task_access::state(work_); }

  task<T> work_;
};

/// The awaitable of as_result() for a single operation of gyre.
template <class Awaiter>
class [[nodiscard]] operation_result_awaiter {
  using value_type = task_result_t<Awaiter>;

 public:
  static constexpr bool executor_affine = true;

  template <class Operation>
  explicit operation_result_awaiter(Operation&& operation)
      : awaiter_(std::forward<Operation>(operation)) {}

  bool await_ready() noexcept { return awaiter_.await_ready(); }
  template <class Promise>
  GYRE_INLINE_IN_GCC auto await_suspend(std::coroutine_handle<Promise> coroutine) noexcept {
    return awaiter_.await_suspend(coroutine);
  }
  result_of_t<value_type> await_resume() {
    return catch_error<value_type>([this]() -> value_type { return awaiter_.await_resume(); });
  }

 private:
  Awaiter awaiter_;
};

}  // namespace detail
}  // namespace gyre
