// SPDX-License-Identifier: Apache-2.0
// awaiter_of: the awaiter of `co_await awaitable`, found by the rules of the language.
#pragma once

#include <gyre/task/detail/transfer.hpp>

#include <type_traits>
#include <utility>

namespace gyre::detail {

/// Returns the awaiter of `co_await awaitable`; `awaitable` itself if it has no operator co_await
/// that is visible here.
template <class Awaitable>
GYRE_INLINE_IN_GCC inline decltype(auto) awaiter_of(Awaitable&& awaitable) {
  if constexpr (requires { std::forward<Awaitable>(awaitable).operator co_await(); }) {
    return std::forward<Awaitable>(awaitable).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<Awaitable>(awaitable)); }) {
    return operator co_await(std::forward<Awaitable>(awaitable));
  } else {
    return std::forward<Awaitable>(awaitable);
  }
}

/// Whether `Awaiter` is an awaiter. awaiter_of() returns no awaiter for a type whose operator
/// co_await is visible only at the co_await expression, although the compiler finds that operator
/// there.
template <class Awaiter>
concept is_awaiter = requires(std::remove_reference_t<Awaiter>& awaiter) { awaiter.await_ready(); };

}  // namespace gyre::detail
