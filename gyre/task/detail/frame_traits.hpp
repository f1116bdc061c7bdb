// SPDX-License-Identifier: Apache-2.0
// coroutine_traits of coroutines with an allocator: another promise type, so that those without one
// do not pay for the choice.
#pragma once

#include <gyre/task/detail/frame.hpp>

#include <concepts>
#include <coroutine>
#include <memory>
#include <type_traits>

namespace gyre::detail {

template <class Coroutine>
concept slab_coroutine = std::derived_from<typename Coroutine::promise_type, slab_frame>;

}  // namespace gyre::detail

template <gyre::detail::slab_coroutine Coroutine, class Allocator, class... Arguments>
struct std::coroutine_traits<Coroutine, std::allocator_arg_t, Allocator, Arguments...> {
  using promise_type =
      gyre::detail::allocator_frame<typename Coroutine::promise_type, std::decay_t<Allocator>,
                                    gyre::detail::parameters<>,
                                    gyre::detail::parameters<Arguments...>>;
};
// Member functions and lambdas: the object comes first.
template <gyre::detail::slab_coroutine Coroutine, class Self, class Allocator, class... Arguments>
struct std::coroutine_traits<Coroutine, Self, std::allocator_arg_t, Allocator, Arguments...> {
  using promise_type =
      gyre::detail::allocator_frame<typename Coroutine::promise_type, std::decay_t<Allocator>,
                                    gyre::detail::parameters<Self>,
                                    gyre::detail::parameters<Arguments...>>;
};
