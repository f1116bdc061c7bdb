// SPDX-License-Identifier: Apache-2.0
// awaitable, as_task: the concept of awaitable types, and their conversion to a task.
#pragma once

#include <gyre/task/detail/misuse.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre {
namespace detail {

template <class T>
concept awaiter = requires(T& object, std::coroutine_handle<task<>::promise_type> h) {
  { object.await_ready() } -> std::convertible_to<bool>;
  object.await_suspend(h);
  object.await_resume();
};

/// The form in which a tuple, a vector or a variant holds a result of type T.
template <class T>
using element_t =
    std::conditional_t<std::is_void_v<T>, std::monostate,
                       std::conditional_t<std::is_reference_v<T>,
                                          std::reference_wrapper<std::remove_reference_t<T>>, T>>;

}  // namespace detail

/// A type whose objects a coroutine of gyre can `co_await`.
template <class T>
concept awaitable = requires(T&& object) {
  requires detail::awaiter<
      std::remove_reference_t<decltype(detail::awaiter_of(std::forward<T>(object)))>>;
};

/// The type of the expression `co_await object` for an object of type T.
template <awaitable T>
using await_result_t =
    decltype(std::declval<
                 std::remove_reference_t<decltype(detail::awaiter_of(std::declval<T>()))>&>()
                 .await_resume());

/// The result type of a task that awaits a T: await_result_t, but a value in place of an rvalue
/// reference.
template <awaitable T>
using task_result_t = std::conditional_t<std::is_rvalue_reference_v<await_result_t<T>>,
                                         std::remove_cvref_t<await_result_t<T>>, await_result_t<T>>;

/// Converts `object` to a task that awaits it. A task, which must be an rvalue, is returned
/// unchanged.
///
/// Lifetime: rvalues are moved into the task; lvalues must outlive the task.
/// Complexity: a coroutine frame, unless `object` is a task.
template <awaitable T>
  requires detail::well_awaited<T>
auto as_task(T&& object) {
  if constexpr (detail::is_task<std::remove_cvref_t<T>>) {
    return std::remove_cvref_t<T>(std::forward<T>(object));
  } else {
    return [](T source) -> task<task_result_t<T>> {
      co_return co_await std::forward<T>(source);
    }(std::forward<T>(object));
  }
}
// This overload explains wrong arguments: see base/detail/misuse.hpp.
void as_task(detail::misused_awaitable explained);

namespace detail {

/// Converts `object` to a task that awaits it and drops the result. Throws std::logic_error for an
/// empty task.
template <awaitable T>
task<> as_task_without_result(T object) {
  if constexpr (is_task<T>) {
    if (!object.valid()) throw_empty_task();
  }
  if constexpr (std::is_same_v<T, task<>>) {
    return object;
  } else {
    return [](T source) -> task<> {
      static_cast<void>(co_await std::move(source));
    }(std::move(object));
  }
}

}  // namespace detail
}  // namespace gyre
