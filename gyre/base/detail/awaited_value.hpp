// SPDX-License-Identifier: Apache-2.0
// awaited_value: the parameter type of values in awaitable functions, which refuses temporaries
// that the compiler would destroy twice.
//
//     auto send(awaited_value<T> value);      // T, except with GCC 12 and an aggregate
//
// GCC before 13 runs the destructors of an aggregate's members twice if the aggregate is made
// within an awaited expression, as in `co_await jobs.send(job{id, "name"})`, whatever the called
// function does with the aggregate. A function cannot distinguish such a temporary from other
// rvalues, so all rvalues of these types are refused.
#pragma once

#include <gyre/base/detail/misuse.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace gyre::detail {

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
inline constexpr bool destroys_awaited_aggregates_twice = true;
#else
inline constexpr bool destroys_awaited_aggregates_twice = false;
#endif

/// Aggregates that the compiler would destroy twice as temporaries of an awaited expression.
template <class T>
concept unsafe_aggregate = destroys_awaited_aggregates_twice && std::is_aggregate_v<T> &&
                           !std::is_trivially_destructible_v<T>;
/// Whether T, as a forwarding reference deduces it, is an rvalue of an unsafe_aggregate.
template <class T>
concept unsafe_temporary = !std::is_reference_v<T> && unsafe_aggregate<std::remove_cv_t<T>>;

#define GYRE_UNSAFE_TEMPORARY                                                                   \
  "GCC 12 destroys an aggregate that is made within an awaited expression twice: make it with " \
  "emplace(members...) where there is one, or give it a name and pass that, to send_from() if " \
  "it is to be moved"

/// A parameter type that replaces a T that must not be a temporary: converts from an lvalue, by a
/// copy.
template <class T>
class named_value {
 public:
  named_value(const T& value) noexcept(std::is_nothrow_copy_constructible_v<T>)
    requires std::copy_constructible<T>
      : value_(value) {}
  named_value(T& value) noexcept(std::is_nothrow_copy_constructible_v<T>)
    requires std::copy_constructible<T>
      : named_value(std::as_const(value)) {}
  template <class... Members>
    requires std::constructible_from<T, Members...>
  GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
  named_value(Members&&...) {}

  operator T&&() && noexcept { return std::move(value_); }

 private:
  T value_;
};

template <class T>
struct awaited_value_type {
  using type = T;
};
template <unsafe_aggregate T>
struct awaited_value_type<T> {
  using type = named_value<T>;
};
template <class T>
using awaited_value = typename awaited_value_type<T>::type;

}  // namespace gyre::detail
