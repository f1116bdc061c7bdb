// SPDX-License-Identifier: Apache-2.0
// as_expected: awaits an operation and returns its error as a value.
//
//     std::expected<void, std::error_code> slept = co_await gyre::as_expected(gyre::sleep_for(1s));
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <expected>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre {
namespace detail {

/// Awaiters whose result() returns the error as a value.
template <class T>
concept has_result = requires(T& object) { object.result(); };
template <class T>
using expected_t =
    std::expected<std::conditional_t<std::is_void_v<T>, void, element_t<T>>, std::error_code>;
template <class Awaiter>
class expecting_awaiter;
template <class Awaitable>
task<expected_t<task_result_t<Awaitable>>> catch_system_error(Awaitable awaitable);

}  // namespace detail

/// Awaits `awaitable` and returns a std::expected of its result, or of the std::error_code with
/// which it failed. A result that is a reference is held in a std::reference_wrapper.
///
/// Lifetime: rvalues are moved in; lvalues must outlive the await.
/// Errors: throws gyre::operation_cancelled when the coroutine was asked to stop. A task,
/// combinator or foreign awaitable also throws exceptions that are neither a std::system_error nor
/// a std::bad_alloc; the latter is returned as std::errc::not_enough_memory.
/// Complexity: no allocation for single operations of gyre (a read, a sleep); for other awaitables
/// a coroutine frame, and the throw.
template <awaitable Awaitable>
[[nodiscard]] auto as_expected(Awaitable&& awaitable) {
  using awaiter = decltype(detail::awaiter_of(std::declval<Awaitable>()));
  // An awaiter that operator co_await returns may refer to the awaitable, and would outlive it.
  constexpr bool awaits_itself =
      std::is_same_v<std::remove_cvref_t<awaiter>, std::remove_cvref_t<Awaitable>>;
  if constexpr (awaits_itself && detail::has_result<awaiter>) {
    return detail::expecting_awaiter<Awaitable>(std::forward<Awaitable>(awaitable));
  } else {
    return detail::catch_system_error<Awaitable>(std::forward<Awaitable>(awaitable));
  }
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
std::suspend_never as_expected(detail::misused_awaitable explained);

namespace detail {

/// An awaiter whose await_resume() returns result() of `Awaiter`.
template <class Awaiter>
class expecting_awaiter {
 public:
  static constexpr bool executor_affine = resumes_on_executor<Awaiter>;

  template <class Awaitable>
  explicit expecting_awaiter(Awaitable&& awaitable)
      : awaiter_(awaiter_of(std::forward<Awaitable>(awaitable))) {}

  bool await_ready() { return awaiter_.await_ready(); }
  template <class Promise>
  GYRE_INLINE_IN_GCC auto await_suspend(std::coroutine_handle<Promise> coroutine) {
    return awaiter_.await_suspend(coroutine);
  }
  auto await_resume() noexcept(noexcept(awaiter_.result())) { return awaiter_.result(); }

 private:
  Awaiter awaiter_;
};

template <class Awaitable>
task<expected_t<task_result_t<Awaitable>>> catch_system_error(Awaitable awaitable) {
  try {
    if constexpr (std::is_void_v<task_result_t<Awaitable>>) {
      co_await std::forward<Awaitable>(awaitable);
      co_return expected_t<void>();
    } else {
      co_return co_await std::forward<Awaitable>(awaitable);
    }
  } catch (const std::system_error& error) {
    co_return std::unexpected(error.code());
  } catch (const std::bad_alloc&) {
    co_return std::unexpected(std::make_error_code(std::errc::not_enough_memory));
  }
}

}  // namespace detail
}  // namespace gyre
