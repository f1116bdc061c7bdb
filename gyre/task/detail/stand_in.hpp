// SPDX-License-Identifier: Apache-2.0
// stand_in: a hand-made coroutine frame, with which an awaiter stands in for the coroutine that
// awaits it: resuming the frame calls a function of the awaiter.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <concepts>
#include <coroutine>

// Marks a function that is the resumption of a stand-in. It continues with the coroutine by a jump,
// so that a loop of awaits that return by symmetric transfer uses no stack. Such a function must
// not be noexcept: GCC would then make a call.
#ifdef __clang__
#define GYRE_TAIL_CALL [[clang::musttail]]
#define GYRE_MAKES_TAIL_CALLS
#else
#define GYRE_TAIL_CALL
#define GYRE_MAKES_TAIL_CALLS [[gnu::optimize("O2", "optimize-sibling-calls")]]  // even at -O0
#endif

namespace gyre::detail {

/// Resumes the coroutine with this frame, as the last call of a stand-in's resumption. Unlike
/// gyre::detail::resume() it starts no trampoline: the one that resumed the stand-in takes the
/// coroutine's transfers.
GYRE_MAKES_TAIL_CALLS inline void continue_with(void* frame) {
  if (!may_resume(std::coroutine_handle<>::from_address(frame))) [[unlikely]]
    return;
  using function = void (*)(void* frame);
  GYRE_TAIL_CALL return (*static_cast<function*>(frame))(frame);
}

/// A frame with the layout of both compilers' coroutine frames: the functions that resume and
/// destroy the coroutine, then the promise. libstdc++ makes std::noop_coroutine() in the same way.
template <class Owner>
class stand_in {
 public:
  struct promise_type : promise_base {};
  using handle = std::coroutine_handle<promise_type>;
  using function = void (*)(void* frame);

  stand_in(function resume, function destroy) noexcept : resume_(resume), destroy_(destroy) {}

  /// Returns a handle whose resumption calls the function `resume` of the constructor with this
  /// frame, which belongs to `owner`, in the context of `coroutine`.
  template <has_context Promise>
  handle make_stand_in(std::coroutine_handle<Promise> coroutine, Owner& owner) noexcept {
    owner_ = &owner;
    if constexpr (std::derived_from<Promise, promise_base>) {
      const promise_base& its = coroutine.promise();
      static_cast<promise_base&>(promise_) = its;
    } else {
      promise_.context = &coroutine.promise().context();
    }
    return get_handle();
  }
  /// Returns the handle of a frame that stands in for no coroutine and has `context`.
  handle stand_in_context(task_context& context, Owner& owner) noexcept {
    owner_ = &owner;
    promise_.context = &context;
    return get_handle();
  }
  handle get_handle() noexcept { return handle::from_address(this); }
  static Owner& owner(void* frame) noexcept { return *static_cast<stand_in*>(frame)->owner_; }
  task_context& context() const noexcept { return *promise_.context; }

 private:
  static_assert(alignof(promise_type) <= 2 * sizeof(void*), "the promise follows the functions");

  function resume_;
  function destroy_;
  promise_type promise_{};
  Owner* owner_ = nullptr;
};

}  // namespace gyre::detail
