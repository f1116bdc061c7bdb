// SPDX-License-Identifier: Apache-2.0
// Promise types that depend on the parameters of a coroutine.
//
// allocator_frame: allocates coroutine frames from an argument of the coroutine instead of from the
// thread's slab as slab_frame does, for `task<int> f(std::allocator_arg_t, Allocator, …)`.
// plain_frame: marks coroutines whose frame holds nothing to be destroyed at the coroutine's end.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/task/detail/build_options.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// A `Promise` whose frames come from a user's allocator; a copy of the allocator is stored after
/// the frame. `Before` and `After` are the coroutine's parameters before and after the allocator.
template <class Promise, class Allocator, class Before, class After>
class allocator_frame;
template <class... Types>
struct parameters {};

template <class Promise, class Allocator, class... Before, class... After>
class allocator_frame<Promise, Allocator, parameters<Before...>, parameters<After...>>
    : public Promise {
  struct alignas(__STDCPP_DEFAULT_NEW_ALIGNMENT__) unit {
    std::byte bytes[__STDCPP_DEFAULT_NEW_ALIGNMENT__];
  };
  using rebound = typename std::allocator_traits<Allocator>::template rebind_alloc<unit>;
  static constexpr bool is_stateless = std::allocator_traits<rebound>::is_always_equal::value &&
                                       std::is_default_constructible_v<rebound>;

  static constexpr std::size_t units(std::size_t bytes) noexcept {
    return (bytes + sizeof(unit) - 1) / sizeof(unit);
  }
  static_assert(alignof(rebound) <= sizeof(unit));
  static constexpr std::size_t total(std::size_t bytes) noexcept {
    return units(bytes) + (is_stateless ? 0 : units(sizeof(rebound)));
  }
  static rebound* allocator_behind(void* frame, std::size_t bytes) noexcept {
    return reinterpret_cast<rebound*>(static_cast<unit*>(frame) + units(bytes));
  }
  static void* allocate(rebound allocator, std::size_t bytes) {
    unit* memory = std::allocator_traits<rebound>::allocate(allocator, total(bytes));
    if constexpr (!is_stateless)
      ::new (allocator_behind(memory, bytes)) rebound(std::move(allocator));
    return memory;
  }

 public:
  // The function is not a template, because GCC 12 would report operator delete as a mismatch.
  static void* operator new(std::size_t bytes, const std::remove_reference_t<Before>&...,
                            std::allocator_arg_t, const Allocator& allocator,
                            const std::remove_reference_t<After>&...) {
    return allocate(rebound(allocator), bytes);
  }
  // Clang does not pass the object of a lambda coroutine to operator new.
  static void* operator new(std::size_t bytes, std::allocator_arg_t, const Allocator& allocator,
                            const std::remove_reference_t<After>&...)
    requires(sizeof...(Before) > 0)
  {
    return allocate(rebound(allocator), bytes);
  }
  static void operator delete(void* frame, std::size_t bytes) noexcept {
    auto* memory = static_cast<unit*>(frame);
    if constexpr (is_stateless) {
      rebound allocator;
      std::allocator_traits<rebound>::deallocate(allocator, memory, total(bytes));
    } else {
      rebound* const own_allocator = allocator_behind(frame, bytes);
      rebound allocator(std::move(*own_allocator));
      own_allocator->~rebound();
      std::allocator_traits<rebound>::deallocate(allocator, memory, total(bytes));
    }
  }
};

/// Coroutines that allocate their frames from the slab. Coroutines with an allocator have another
/// promise type, so the choice costs no instruction here.
template <class Coroutine>
concept slab_coroutine = std::derived_from<typename Coroutine::promise_type, slab_frame>;

/// The `Promise` of a coroutine whose parameters have no destructors. With GCC the final suspension
/// may free the frame without calling the coroutine's destroy function. Not used with Clang, which
/// omits some frames.
template <class Promise>
struct plain_frame : Promise {
  // The constructor is declared, so that a coroutine's parameters cannot initialise the promise.
  plain_frame() = default;
  // The operator is inlined, because GCC would otherwise warn of a mismatch with slab_frame's
  // operator delete.
  GYRE_INLINE_IN_GCC static void* operator new(std::size_t bytes) {
    void* const frame = slab_frame::operator new(bytes);
    // Set before the promise is constructed: its constructor is trivial and leaves is_large
    // unchanged.
    std::coroutine_handle<plain_frame>::from_address(frame).promise().is_large =
        bytes > slab_max_bytes;
    return frame;
  }
  auto get_return_object() noexcept { return Promise::get_return_object(this->is_large); }
};
template <class Promise>
inline constexpr bool has_plain_frame = false;
template <class Promise>
inline constexpr bool has_plain_frame<plain_frame<Promise>> = true;

#if !defined(__clang__)
template <class Coroutine, class... Parameters>
concept coroutine_with_plain_frame =
    !records_backtraces && slab_coroutine<Coroutine> &&
    std::same_as<typename Coroutine::promise_type::frees_plain_frames,
                 typename Coroutine::promise_type> &&
    std::is_trivially_default_constructible_v<typename Coroutine::promise_type> &&
    std::is_trivially_destructible_v<typename Coroutine::promise_type> &&
    (std::is_trivially_destructible_v<Parameters> && ...);
#else
template <class Coroutine, class... Parameters>
concept coroutine_with_plain_frame = false;
#endif

}  // namespace gyre::detail

template <class Coroutine, class... Parameters>
  requires gyre::detail::coroutine_with_plain_frame<Coroutine, Parameters...>
struct std::coroutine_traits<Coroutine, Parameters...> {
  using promise_type = gyre::detail::plain_frame<typename Coroutine::promise_type>;
};

template <gyre::detail::slab_coroutine Coroutine, class Allocator, class... Arguments>
struct std::coroutine_traits<Coroutine, std::allocator_arg_t, Allocator, Arguments...> {
  using promise_type =
      gyre::detail::allocator_frame<typename Coroutine::promise_type, std::decay_t<Allocator>,
                                    gyre::detail::parameters<>,
                                    gyre::detail::parameters<Arguments...>>;
};
// The object is the first parameter of member functions and lambdas.
template <gyre::detail::slab_coroutine Coroutine, class Self, class Allocator, class... Arguments>
struct std::coroutine_traits<Coroutine, Self, std::allocator_arg_t, Allocator, Arguments...> {
  using promise_type =
      gyre::detail::allocator_frame<typename Coroutine::promise_type, std::decay_t<Allocator>,
                                    gyre::detail::parameters<Self>,
                                    gyre::detail::parameters<Arguments...>>;
};
