// SPDX-License-Identifier: Apache-2.0
// awaiter_of: the awaiter of `co_await awaitable`, as the language finds it.
#pragma once

#include <gyre/task/detail/transfer.hpp>

#include <type_traits>
#include <utility>

namespace gyre::detail {

/// The awaiter of `co_await awaitable`.
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

/// Whether `Awaiter` is an awaiter. awaiter_of() returns none if the operator is only visible where
/// the await is; the language finds it.
template <class Awaiter>
concept is_awaiter = requires(std::remove_reference_t<Awaiter>& awaiter) { awaiter.await_ready(); };

}  // namespace gyre::detail
