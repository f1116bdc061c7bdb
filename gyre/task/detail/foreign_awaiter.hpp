// SPDX-License-Identifier: Apache-2.0
// foreign_awaiter: returns a coroutine to its executor after the await of an awaiter that may
// resume on any thread (executor affinity, as in folly and in the tasks of std::execution, P3552).
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/stand_in.hpp>
#include <gyre/task/detail/transfer.hpp>

#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// Awaiters that resume a coroutine only on its executor, as those of gyre do: they have the member
/// `static constexpr bool executor_affine = true`. All other awaiters are foreign.
template <class Awaiter>
concept resumes_on_executor =
    requires { requires static_cast<bool>(std::remove_cvref_t<Awaiter>::executor_affine); };

/// A stand-in for a coroutine, which resumes the coroutine on its executor: directly on a thread of
/// the executor, otherwise through the executor's queue.
class executor_return : operation {
 public:
  using frame = stand_in<executor_return>;
  using promise_type = frame::promise_type;
  using handle = frame::handle;

  executor_return() noexcept : operation(&run) {}

  /// Returns the handle that resumes `coroutine`.
  template <std::derived_from<promise_base> Promise>
  handle make_stand_in(std::coroutine_handle<Promise> coroutine) noexcept {
    coroutine_ = coroutine;
    return frame_.make_stand_in(coroutine, *this);
  }

 private:
  static void resume_frame(void* frame_address);
  static void destroy_frame(void* frame_address) noexcept;
  static void run(operation& op);
  void note_return() noexcept;

  frame frame_{&resume_frame, &destroy_frame};
  std::coroutine_handle<> coroutine_;
};

/// Awaits a foreign awaiter. `Awaiter` is an object type, for an awaiter that an operator co_await
/// returns by value, or a reference.
template <class Awaiter>
class foreign_awaiter {
  using foreign = std::remove_reference_t<Awaiter>;

 public:
  /// Constructs the awaiter from the result of `make`, since an awaiter need not be movable.
  template <class MakeAwaiter>
  explicit foreign_awaiter(MakeAwaiter&& make) : awaiter_(make()) {}

  bool await_ready() noexcept(noexcept(std::declval<foreign&>().await_ready())) {
    return static_cast<bool>(awaiter_.await_ready());
  }
  template <class Promise>
  GYRE_INLINE_IN_GCC auto await_suspend(std::coroutine_handle<Promise> coroutine) {
    if constexpr (requires { awaiter_.await_suspend(executor_return::handle()); }) {
      using returned = decltype(awaiter_.await_suspend(executor_return::handle()));
      const executor_return::handle stand_in = return_.make_stand_in(coroutine);
      if constexpr (std::is_void_v<returned> || std::same_as<returned, bool>) {
        return awaiter_.await_suspend(stand_in);
      } else {
        const std::coroutine_handle<> continuation = awaiter_.await_suspend(stand_in);
        // The awaiter may have been destroyed, and `continuation` been left to a trampoline
        // already.
        return continuation.address() == stand_in.address() ? transfer_to(coroutine) : continuation;
      }
    } else {
      return awaiter_.await_suspend(coroutine);  // the awaiter accepts only this type of promise
    }
  }
  decltype(auto) await_resume() noexcept(noexcept(std::declval<foreign&>().await_resume())) {
    return awaiter_.await_resume();
  }

 private:
  Awaiter awaiter_;
  executor_return return_;
};

}  // namespace gyre::detail
