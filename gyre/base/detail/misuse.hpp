// SPDX-License-Identifier: Apache-2.0
// misuse: parameter types that make the compiler explain a wrong argument in one sentence, at the
// call, instead of listing the overloads that do not fit.
//
//     void post(F&& callable);                 // constrained: F must be callable
//     void post(misused_callable explained);   // chosen only if F is not callable
//
// A wrong argument converts to the second parameter by a constructor that is unavailable: its
// sentence is the first line of the error. A correct argument never converts, so the overload does
// not change overload resolution, and a requires-expression is false for a misuse, as it is without
// the overload.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

/// Makes every use of the following function an error with the message `sentence`, which explains
/// what to write.
#define GYRE_MISUSE(sentence) __attribute__((unavailable(sentence)))

/// Makes substitution of a class with unavailable constructors fail in GCC, too, which regards an
/// unavailable function as usable.
#ifdef __clang__
#define GYRE_MISUSE_FAILS(name)
#else
#define GYRE_MISUSE_FAILS(name) ~name() = delete
#endif

namespace gyre::detail {

/// An awaitable that does nothing until it is awaited: a task, a combinator, a single operation.
template <class T>
concept lazy_awaitable = requires(std::remove_cvref_t<T>& object) { object.await_ready(); };

/// A callable without parameters; drops_awaitable: one whose result, an awaitable, would be
/// dropped.
template <class F>
concept callable_without_parameters = std::is_invocable_v<std::decay_t<F>&>;
template <class F>
concept drops_awaitable =
    callable_without_parameters<F> && lazy_awaitable<std::invoke_result_t<std::decay_t<F>&>>;
/// A callable that can be posted: it takes no parameters, does not only make an awaitable, and can
/// be stored.
template <class F>
concept postable = callable_without_parameters<F> && !drops_awaitable<F> &&
                   std::is_constructible_v<std::decay_t<F>, F>;

/// Converts from wrong arguments for a callable that is posted to a loop or a pool.
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

/// Converts from surplus arguments, which the caller meant for the callable before them.
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

/// Converts from numbers that are passed instead of a duration.
class misused_duration {
 public:
  GYRE_MISUSE_FAILS(misused_duration);

  template <class T>
    requires std::is_arithmetic_v<std::remove_cvref_t<T>>
  GYRE_MISUSE("a number has no unit: pass a std::chrono duration, for example 5ms")
  misused_duration(T&&) {}
};

/// Whether a callback with `Signature` can be constructed from an F.
template <class F, class Signature>
inline constexpr bool accepts_signature = false;
template <class F, class R, class... Arguments>
inline constexpr bool accepts_signature<F, R(Arguments...)> =
    std::is_invocable_r_v<R, std::decay_t<F>&, Arguments...> &&
    std::is_constructible_v<std::decay_t<F>, F>;
template <class F, class Signature>
concept wrong_callback =
    !accepts_signature<F, Signature> && !std::is_null_pointer_v<std::remove_cvref_t<F>>;

/// Defines the class `name`: a parameter type that accepts only callbacks with the wrong signature,
/// to report `sentence`. The variadic arguments are the right signature.
#define GYRE_MISUSED_CALLBACK(name, sentence, ...)           \
  class name {                                               \
   public:                                                   \
    GYRE_MISUSE_FAILS(name);                                 \
    template <::gyre::detail::wrong_callback<__VA_ARGS__> F> \
    GYRE_MISUSE(sentence)                                    \
    name(F&&) {}                                             \
  }

}  // namespace gyre::detail
