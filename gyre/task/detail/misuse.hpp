// SPDX-License-Identifier: Apache-2.0
// misused_awaitable: explains, in the compiler's error, why an argument cannot be awaited; see
// base/detail/misuse.hpp.
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/task/detail/awaiter_of.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

namespace gyre {

template <class T>
class task;

namespace detail {

template <class T>
inline constexpr bool is_task = false;
template <class T>
inline constexpr bool is_task<task<T>> = true;

/// Types that have an awaiter whose operator co_await, if any, is visible here.
template <class T>
concept has_awaiter = is_awaiter<decltype(awaiter_of(std::declval<T>()))>;
template <class F>
concept makes_awaitable = requires(std::remove_cvref_t<F>& function) {
  function();
  requires has_awaiter<decltype(function())>;
};
template <class T>
concept range_of_awaitables = requires(std::remove_cvref_t<T>& range) {
  range.begin();
  range.end();
  requires has_awaiter<std::remove_cvref_t<decltype(*range.begin())>>;
};
/// std::future, std::shared_future and similar types, recognised without their headers.
template <class T>
concept blocking_future = requires(std::remove_cvref_t<T>& future) {
  future.get();
  future.wait();
  future.valid();
};
template <class T>
concept duration_like = requires {
  typename std::remove_cvref_t<T>::rep;
  typename std::remove_cvref_t<T>::period;
};

/// The reason why a T cannot be awaited.
enum class await_misuse { none, lvalue_task, callable, array, range, future, duration, other };

template <class T>
consteval await_misuse find_await_misuse() {
  if constexpr (has_awaiter<T>) {
    constexpr bool is_named_task = is_task<std::remove_cvref_t<T>> && std::is_lvalue_reference_v<T>;
    return is_named_task ? await_misuse::lvalue_task : await_misuse::none;
  } else if constexpr (makes_awaitable<T>) {
    return await_misuse::callable;
  } else if constexpr (range_of_awaitables<T> && unsafe_temporary<T>) {
    return await_misuse::array;
  } else if constexpr (range_of_awaitables<T>) {
    return await_misuse::range;
  } else if constexpr (blocking_future<T>) {
    return await_misuse::future;
  } else if constexpr (duration_like<T>) {
    return await_misuse::duration;
  } else {
    return await_misuse::other;
  }
}

/// `T`, as a forwarding reference deduces it, cannot be awaited, because of the mistake `Reason`.
template <class T, await_misuse Reason>
concept await_misused_as = find_await_misuse<T>() == Reason;
/// The constraint of functions that take an awaitable by a forwarding reference.
template <class T>
concept well_awaited = await_misused_as<T, await_misuse::none>;

/// A parameter type that accepts only objects that cannot be awaited, and explains the mistake in
/// the compiler's error.
class misused_awaitable {
 public:
  GYRE_MISUSE_FAILS(misused_awaitable);

  template <await_misused_as<await_misuse::lvalue_task> T>
  GYRE_MISUSE("a task is awaited once: hand it over by std::move(task)")
  misused_awaitable(T&&) {}
  template <await_misused_as<await_misuse::callable> T>
  GYRE_MISUSE(
      "a callable is no awaitable: call it, as in lambda(), or pass gyre::invoke(lambda), which "
      "keeps the captures of the lambda")
  misused_awaitable(T&&) {}
  template <await_misused_as<await_misuse::array> T>
  GYRE_MISUSE(
      "GCC 12 destroys a std::array that is made within an awaited expression twice: pass the "
      "awaitables themselves, or a std::span of a variable")
  misused_awaitable(T&&) {}
  template <await_misused_as<await_misuse::range> T>
  GYRE_MISUSE(
      "a range of awaitables is handed over to when_all(), when_any() or collect(), as in "
      "gyre::when_all(std::move(tasks))")
  misused_awaitable(T&&) {}
  template <await_misused_as<await_misuse::future> T>
  GYRE_MISUSE(
      "a std::future would block the thread: use gyre::from_future(std::move(future), pool)")
  misused_awaitable(T&&) {}
  template <await_misused_as<await_misuse::duration> T>
  GYRE_MISUSE("a duration is no awaitable: use gyre::sleep_for(duration)")
  misused_awaitable(T&&) {}
  template <await_misused_as<await_misuse::other> T>
  GYRE_MISUSE("an awaitable is needed here, such as the gyre::task that a coroutine returns")
  misused_awaitable(T&&) {}
};

/// Types for which `co_await` is rejected at once. Other types without an awaiter may have an
/// operator co_await that is visible only at the co_await expression.
template <class T>
concept never_awaited =
    await_misused_as<T, await_misuse::lvalue_task> || await_misused_as<T, await_misuse::callable> ||
    (await_misused_as<T, await_misuse::future> && std::is_lvalue_reference_v<T>) ||
    (await_misused_as<T, await_misuse::other> && std::is_scalar_v<std::remove_cvref_t<T>> &&
     !std::is_enum_v<std::remove_cvref_t<T>>);
template <class T>
concept perhaps_awaited =
    !never_awaited<T> && !std::is_final_v<std::remove_cvref_t<T>> &&
    (await_misused_as<T, await_misuse::future> || await_misused_as<T, await_misuse::duration>);

/// Wraps a future or a duration that is awaited. If an operator co_await is visible at the co_await
/// expression, the operator accepts the wrapper. If there is none, the wrapper is itself an
/// awaiter, whose use is a compile-time error.
template <class T>
class without_awaiter : public T {
 public:
  explicit without_awaiter(T object) : T(std::move(object)) {}

  GYRE_MISUSE(
      "a std::future would block the thread: use gyre::from_future(std::move(future), pool)")
  bool await_ready()
    requires blocking_future<T>;
  GYRE_MISUSE("a duration is no awaitable: use gyre::sleep_for(duration)")
  bool await_ready()
    requires duration_like<T>;
  void await_suspend(std::coroutine_handle<>);
  void await_resume();
};

}  // namespace detail
}  // namespace gyre
