// SPDX-License-Identifier: Apache-2.0
// awaiting_promise: the await_transform() of gyre's coroutines, which wraps foreign awaiters and
// records the place of each await for async_backtrace.
//
// GCC 12 copies an awaiter that await_transform() returns by reference; so there await_transform()
// returns an awaiter_reference.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/awaiter_of.hpp>
#include <gyre/task/detail/foreign_awaiter.hpp>
#include <gyre/task/detail/misuse.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <coroutine>
#include <source_location>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// An awaiter that forwards to another awaiter, which is a variable or a temporary of the awaited
/// expression.
template <class Awaiter>
class awaiter_reference {
 public:
  explicit awaiter_reference(Awaiter& awaiter) noexcept : awaiter_(awaiter) {}

  GYRE_INLINE_IN_GCC bool await_ready() noexcept(noexcept(awaiter_.await_ready())) {
    return static_cast<bool>(awaiter_.await_ready());
  }
  template <class Promise>
  GYRE_INLINE_IN_GCC auto await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(
      noexcept(awaiter_.await_suspend(coroutine))) {
    return awaiter_.await_suspend(coroutine);
  }
  GYRE_INLINE_IN_GCC decltype(auto) await_resume() noexcept(noexcept(awaiter_.await_resume())) {
    return awaiter_.await_resume();
  }

 private:
  Awaiter& awaiter_;
};

#ifdef __clang__
inline constexpr bool copies_returned_awaiters = false;
#else
inline constexpr bool copies_returned_awaiters = true;
#endif

/// A small temporary object, which is cheaper to copy than to refer to.
template <class Awaiter>
concept cheap_to_copy = std::is_rvalue_reference_v<Awaiter> &&
                        std::is_trivially_copyable_v<std::remove_reference_t<Awaiter>> &&
                        sizeof(std::remove_reference_t<Awaiter>) <= 2 * sizeof(void*);

/// The base of the promises of all coroutines that await.
struct awaiting_promise : promise_base {
  template <class Awaitable>
    requires(!never_awaited<Awaitable> && records_backtraces)
  GYRE_INLINE_IN_GCC decltype(auto) await_transform(
      Awaitable&& awaitable, std::source_location place = std::source_location::current()) {
    trace.place.set(place);
    context->trace.innermost.set(this);
    context->trace.holder.set(nullptr);
    return back_on_executor(std::forward<Awaitable>(awaitable));
  }
  template <class Awaitable>
    requires(!never_awaited<Awaitable> && !records_backtraces)
  GYRE_INLINE_IN_GCC decltype(auto) await_transform(Awaitable&& awaitable) {
    return back_on_executor(std::forward<Awaitable>(awaitable));
  }
  std::suspend_never await_transform(misused_awaitable explained);

 private:
  template <class Awaitable>
  GYRE_INLINE_IN_GCC static decltype(auto) back_on_executor(Awaitable&& awaitable) {
    using awaiter = decltype(awaiter_of(std::forward<Awaitable>(awaitable)));
    if constexpr (perhaps_awaited<Awaitable>) {
      return without_awaiter<std::remove_cvref_t<Awaitable>>(std::forward<Awaitable>(awaitable));
    } else if constexpr (!is_awaiter<awaiter>) {
      return static_cast<Awaitable&&>(awaitable);
    } else if constexpr (!resumes_on_executor<awaiter>) {
      return foreign_awaiter<awaiter>(
          [&]() -> decltype(auto) { return awaiter_of(std::forward<Awaitable>(awaitable)); });
    } else if constexpr (!std::is_reference_v<awaiter>) {
      return awaiter_of(std::forward<Awaitable>(awaitable));
    } else if constexpr (!copies_returned_awaiters) {
      return static_cast<awaiter>(awaiter_of(std::forward<Awaitable>(awaitable)));
    } else if constexpr (cheap_to_copy<awaiter>) {
      return std::remove_reference_t<awaiter>(awaiter_of(std::forward<Awaitable>(awaitable)));
    } else {
      return refer_to(awaiter_of(std::forward<Awaitable>(awaitable)));
    }
  }
  template <class Awaiter>
  GYRE_INLINE_IN_GCC static auto refer_to(Awaiter&& awaiter) noexcept {
    return awaiter_reference<std::remove_reference_t<Awaiter>>(awaiter);
  }
};

}  // namespace gyre::detail
