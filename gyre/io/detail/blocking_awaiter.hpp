// SPDX-License-Identifier: Apache-2.0
// blocking_awaiter: the awaiter of blocking().
#pragma once

#include <gyre/io/detail/blocking_call.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/stop_token.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace gyre::io::detail {

template <class Function, class... Arguments>
concept takes_stop_token = std::invocable<Function, inplace_stop_token, Arguments...>;

/// A function for blocking(), which returns an object or nothing.
template <class Function, class... Arguments>
concept blocking_function =
    std::move_constructible<Function> && (std::move_constructible<Arguments> && ...) &&
    (takes_stop_token<Function, Arguments...> || std::invocable<Function, Arguments...>);

/// Calls a blocking_function, which gets the stop token if it takes one.
template <class Function, class... Arguments>
decltype(auto) call_blocking(Function&& function, inplace_stop_token stop,
                             Arguments&&... arguments) {
  if constexpr (takes_stop_token<Function, Arguments...>) {
    return std::invoke(std::forward<Function>(function), stop,
                       std::forward<Arguments>(arguments)...);
  } else {
    return std::invoke(std::forward<Function>(function), std::forward<Arguments>(arguments)...);
  }
}

/// Calls a Function on a thread of the pool, and keeps its outcome.
template <class Function, class... Arguments>
class [[nodiscard]] blocking_awaiter final : blocking_work {
 public:
  using value_type = decltype(call_blocking(std::declval<Function>(), inplace_stop_token(),
                                            std::declval<Arguments>()...));
  static_assert(!std::is_reference_v<value_type>,
                "blocking(): the function returns a reference, which may refer to an object of the "
                "call that has ended: return an object, a pointer or std::ref()");

  template <class Callable, class... Values>
  explicit blocking_awaiter(Callable&& function, Values&&... arguments)
      : function_(std::forward<Callable>(function)),
        arguments_(std::forward<Values>(arguments)...) {}
  // An awaiter moves only before it is awaited.
  blocking_awaiter(blocking_awaiter&& other) noexcept(
      std::is_nothrow_move_constructible_v<Function> &&
      std::is_nothrow_move_constructible_v<std::tuple<Arguments...>>)
      : function_(std::move(other.function_)), arguments_(std::move(other.arguments_)) {}
  blocking_awaiter& operator=(const blocking_awaiter&) = delete;

  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) {
    context_ = &gyre::detail::context_of(coroutine);
    return call_.emplace(nullptr, static_cast<blocking_work&>(*this), true)
               .begin(coroutine, *context_) ||
           gyre::detail::gives_way(*context_, coroutine);
  }
  value_type await_resume() {
    if (!call_->end()) gyre::detail::throw_cancelled(*context_);
    if (outcome_.index() == failed) std::rethrow_exception(std::get<failed>(std::move(outcome_)));
    if constexpr (!std::is_void_v<value_type>) return std::get<returned>(std::move(outcome_));
  }

 private:
  using stored = std::conditional_t<std::is_void_v<value_type>, std::monostate, value_type>;
  static constexpr std::size_t returned = 1;
  static constexpr std::size_t failed = 2;

  void run() noexcept override {
    try {
      std::apply(
          [this](Arguments&... arguments) {
            if constexpr (std::is_void_v<value_type>) {
              call_blocking(std::move(function_), context_->stop, std::move(arguments)...);
              outcome_.template emplace<returned>();
            } else {
              outcome_.template emplace<returned>(
                  call_blocking(std::move(function_), context_->stop, std::move(arguments)...));
            }
          },
          arguments_);
    } catch (...) {
      outcome_.template emplace<failed>(gyre::detail::current_exception_outside());
    }
  }

  Function function_;
  [[no_unique_address]] std::tuple<Arguments...> arguments_;
  const task_context* context_ = nullptr;  // the coroutine's context; null before the await
  std::variant<std::monostate, stored, std::exception_ptr> outcome_;
  // The last member: its destructor waits for a call that uses the others.
  std::optional<blocking_call> call_;
};

}  // namespace gyre::io::detail
