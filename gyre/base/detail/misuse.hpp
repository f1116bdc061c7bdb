// SPDX-License-Identifier: Apache-2.0
// misuse: parameters by which the compiler answers a wrong argument with one sentence, at the call,
// in place of the overloads that do not fit.
//
//     void post(F&& callable);                 // constrained, as F must be callable
//     void post(misused_callable explained);   // chosen only where that does not fit
//
// A wrong argument converts to the second parameter by a constructor that is unavailable: its
// sentence is the first line of the error. A right argument never converts, so the overload changes
// no resolution, and a requires-expression is false for a misuse, as without the overload.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

/// The function that follows is an error wherever it is used: `sentence`, which says what to write.
#define GYRE_MISUSE(sentence) __attribute__((unavailable(sentence)))

/// In a class whose constructors are unavailable: makes substitution fail in GCC, too, which by
/// itself takes an unavailable function for a usable one.
#ifdef __clang__
#define GYRE_MISUSE_FAILS(name)
#else
#define GYRE_MISUSE_FAILS(name) ~name() = delete
#endif

namespace gyre::detail {

/// An awaitable that does nothing until it is awaited: a task, a combinator, a single operation.
template <class T>
concept lazy_awaitable = requires(std::remove_cvref_t<T>& object) { object.await_ready(); };

/// A callable that runs later, whose result is dropped.
template <class F>
concept callable_without_parameters = std::is_invocable_v<std::decay_t<F>&>;
template <class F>
concept drops_awaitable =
    callable_without_parameters<F> && lazy_awaitable<std::invoke_result_t<std::decay_t<F>&>>;
/// Callables that can be posted.
template <class F>
concept postable = callable_without_parameters<F> && !drops_awaitable<F> &&
                   std::is_constructible_v<std::decay_t<F>, F>;

/// In place of a callable that is posted to a loop or a pool.
class misused_callable {
 public:
  GYRE_MISUSE_FAILS(misused_callable);

  template <drops_awaitable F>
  GYRE_MISUSE(
      "the callable only makes a coroutine, which would never run: use gyre::spawn(executor, "
      "lambda()), or gyre::spawn(executor, gyre::invoke(lambda)) if the lambda has captures")
  misused_callable(F&&) {}
  template <callable_without_parameters F>
    requires(!drops_awaitable<F> && !std::is_constructible_v<std::decay_t<F>, F>)
  GYRE_MISUSE("the callable cannot be copied: hand it over, as in post(std::move(callable))")
  misused_callable(F&&) {}
  template <class F>
    requires(!callable_without_parameters<F>)
  GYRE_MISUSE(
      "post() and submit() need a callable without parameters: bind the arguments in a lambda, as "
      "in [=] { function(argument); }")
  misused_callable(F&&) {}
};

/// In place of nothing: an argument that is meant for the callable before it.
class misused_argument {
 public:
  GYRE_MISUSE_FAILS(misused_argument);

  template <class T>
    requires(!std::is_enum_v<std::remove_cvref_t<T>>)
  GYRE_MISUSE(
      "post() and submit() pass no arguments: bind the arguments in a lambda, as in [=] { "
      "function(argument); }")
  misused_argument(T&&) {}
};

/// In place of a duration.
class misused_duration {
 public:
  GYRE_MISUSE_FAILS(misused_duration);

  template <class T>
    requires std::is_arithmetic_v<std::remove_cvref_t<T>>
  GYRE_MISUSE("a number has no unit: pass a std::chrono duration, for example 5ms")
  misused_duration(T&&) {}
};

/// Whether a callback with `Signature` can be made of an F.
template <class F, class Signature>
inline constexpr bool accepts_signature = false;
template <class F, class R, class... Arguments>
inline constexpr bool accepts_signature<F, R(Arguments...)> =
    std::is_invocable_r_v<R, std::decay_t<F>&, Arguments...> &&
    std::is_constructible_v<std::decay_t<F>, F>;
template <class F, class Signature>
concept wrong_callback =
    !accepts_signature<F, Signature> && !std::is_null_pointer_v<std::remove_cvref_t<F>>;

/// Defines the class `name`, which stands in place of a callback with the signature after the
/// sentence.
#define GYRE_MISUSED_CALLBACK(name, sentence, ...)           \
  class name {                                               \
   public:                                                   \
    GYRE_MISUSE_FAILS(name);                                 \
    template <::gyre::detail::wrong_callback<__VA_ARGS__> F> \
    GYRE_MISUSE(sentence)                                    \
    name(F&&) {}                                             \
  }

}  // namespace gyre::detail
