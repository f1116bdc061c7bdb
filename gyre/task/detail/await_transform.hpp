// SPDX-License-Identifier: Apache-2.0
// await_transform of builds whose coroutines know where they wait (async_backtrace.hpp).
//
// GCC 12 copies an awaiter that await_transform() returns by reference: so what is returned is always
// an object, which refers to the awaiter where that exists already.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <coroutine>
#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// The object that `co_await awaitable` talks to.
template <class Awaitable>
decltype(auto) awaiter_of(Awaitable&& awaitable) {
  if constexpr (requires { std::forward<Awaitable>(awaitable).operator co_await(); }) {
    return std::forward<Awaitable>(awaitable).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<Awaitable>(awaitable)); }) {
    return operator co_await(std::forward<Awaitable>(awaitable));
  } else {
    return std::forward<Awaitable>(awaitable);
  }
}

/// An awaiter that is somewhere else: a variable, or a temporary of the awaited expression.
template <class Awaiter>
class awaiter_reference {
 public:
  explicit awaiter_reference(Awaiter& to) noexcept : awaiter_(to) {}

  bool await_ready() noexcept(noexcept(awaiter_.await_ready())) {
    return static_cast<bool>(awaiter_.await_ready());
  }
  template <class Promise>
  GYRE_INLINE_IN_GCC auto await_suspend(std::coroutine_handle<Promise> awaiting) noexcept(
      noexcept(awaiter_.await_suspend(awaiting))) {
    return awaiter_.await_suspend(awaiting);
  }
  decltype(auto) await_resume() noexcept(noexcept(awaiter_.await_resume())) {
    return awaiter_.await_resume();
  }

 private:
  Awaiter& awaiter_;
};

/// Base of promises whose coroutines await things.
struct awaiting_promise : promise_base {
#if GYRE_ASYNC_BACKTRACE
  template <class Awaitable>
  auto await_transform(Awaitable&& awaitable,
                       std::source_location from = std::source_location::current()) {
    where = from;
    context->innermost = this;
    context->held_by = nullptr;
    using awaiter = decltype(awaiter_of(std::forward<Awaitable>(awaitable)));
    if constexpr (std::is_reference_v<awaiter>) {
      return refer_to(awaiter_of(std::forward<Awaitable>(awaitable)));
    } else {
      return awaiter_of(std::forward<Awaitable>(awaitable));
    }
  }

 private:
  template <class Awaiter>
  static auto refer_to(Awaiter&& awaiter) noexcept {
    return awaiter_reference<std::remove_reference_t<Awaiter>>(awaiter);
  }
#endif
};

}  // namespace gyre::detail
