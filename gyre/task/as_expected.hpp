// SPDX-License-Identifier: Apache-2.0
// Errors as values.
//
//     std::expected<void, std::error_code> slept = co_await gyre::as_expected(gyre::sleep_for(1s));
#pragma once

#include <gyre/task/as_task.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <expected>
#include <functional>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

namespace gyre {

namespace detail {

/// Awaiters that can tell their error without a throw.
template <class T>
concept tells_result = requires(T& object) { object.result(); };

/// Passes everything on to `Awaiter`, but asks it for the result instead of the value.
template <class Awaiter>
class expecting_awaiter {
 public:
  static constexpr bool executor_affine = resumes_on_executor<Awaiter>;

  template <class Awaitable>
  explicit expecting_awaiter(Awaitable&& operation)
      : awaiter_(awaiter_of(std::forward<Awaitable>(operation))) {}

  bool await_ready() { return awaiter_.await_ready(); }
  template <class Promise>
  GYRE_INLINE_IN_GCC auto await_suspend(std::coroutine_handle<Promise> awaiting) {
    return awaiter_.await_suspend(awaiting);
  }
  auto await_resume() noexcept(noexcept(awaiter_.result())) { return awaiter_.result(); }

 private:
  Awaiter awaiter_;
};

template <class T>
struct value_in_expected {
  using type = T;
};
template <class T>
struct value_in_expected<T&> {
  using type = std::reference_wrapper<T>;
};
template <class T>
using expected_t = std::expected<typename value_in_expected<T>::type, std::error_code>;

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

/// Awaited, gives what `operation` gives or the std::error_code it fails with, as a
/// std::expected<T, std::error_code>; a reference comes in a std::reference_wrapper.
///
/// Operations of gyre (sleeping, locking, reading, …) then do not throw, but for
/// operation_cancelled when the coroutine is asked to stop, and nothing is allocated. Of tasks and
/// other awaitables it catches std::system_error, which costs a frame and the throw, and
/// std::bad_alloc, which becomes std::errc::not_enough_memory; other exceptions pass. Takes rvalues
/// by value; lvalues are referred to.
template <awaitable Awaitable>
[[nodiscard]] auto as_expected(Awaitable&& operation) {
  using awaiter = decltype(detail::awaiter_of(std::declval<Awaitable>()));
  // The awaiter of operator co_await may refer to the operation, and would outlive it.
  constexpr bool awaits_itself =
      std::is_same_v<std::remove_cvref_t<awaiter>, std::remove_cvref_t<Awaitable>>;
  if constexpr (awaits_itself && detail::tells_result<awaiter>) {
    return detail::expecting_awaiter<Awaitable>(std::forward<Awaitable>(operation));
  } else {
    return detail::catch_system_error<Awaitable>(std::forward<Awaitable>(operation));
  }
}

}  // namespace gyre
