// SPDX-License-Identifier: Apache-2.0
// call_once: runs a function at most once, however many coroutines call it.
//
//     gyre::once_flag connected;
//
//     co_await gyre::call_once(connected, [&] { return connect(); });
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

namespace gyre {

/// The state of a call_once(): whether a call has succeeded, and the callers that wait for one.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive the calls.
/// Complexity: one load when a call has succeeded; no allocation; 24 bytes.
class once_flag : detail::waiting_line<once_flag> {
 public:
  constexpr once_flag() noexcept = default;

  /// Returns whether a call has succeeded; the call happens before a return of true.
  [[nodiscard]] bool done() const noexcept {
    // acquire: pairs with the release in state_word::unlock(); makes the function's writes visible.
    return (load(std::memory_order_acquire) & succeeded) != 0;
  }

 private:
  using entry = detail::primitive_wait<void, once_flag>;
  friend entry;
  friend waiting_line;
  template <std::invocable Function>
  friend task<> call_once(once_flag& flag, Function function);

  /// One coroutine's attempt to run the function. The attempt has failed unless succeed() was
  /// called before the destructor.
  class attempt {
   public:
    explicit attempt(once_flag& flag) noexcept : flag_(flag) {}
    attempt& operator=(attempt&&) = delete;
    ~attempt() { flag_.end_attempt(has_succeeded_); }
    void succeed() noexcept { has_succeeded_ = true; }

   private:
    once_flag& flag_;
    bool has_succeeded_ = false;
  };

  static constexpr word succeeded = 4;
  static constexpr word attempted = 8;  // set while one coroutine runs the function

  bool admit(detail::waiter&) const noexcept { return done(); }
  static bool take(word& state, const detail::waiter&) noexcept {
    if ((state & attempted) != 0) return false;
    if ((state & succeeded) == 0) state |= attempted;
    return true;
  }
  void end_attempt(bool success) noexcept {
    change([success](word& state) {
      state &= ~attempted;
      if (success) state |= succeeded;
    });
  }
};

/// Awaited, calls `function` unless an earlier call with `flag` has succeeded, and awaits the
/// result if that is an awaitable. Waits while another coroutine's call runs. As std::call_once.
///
/// Errors: the function's exception; the caller that has waited longest then makes the next
/// attempt. A wait that is asked to stop throws operation_cancelled.
/// Complexity: allocates a coroutine frame, which checking flag.done() first avoids.
template <std::invocable Function>
task<> call_once(once_flag& flag, Function function) {
  if (flag.done()) co_return;
  co_await once_flag::entry(flag);
  if (flag.done()) co_return;
  once_flag::attempt attempt(flag);
  if constexpr (awaitable<std::invoke_result_t<Function>>) {
    auto&& work = std::move(function)();
    static_cast<void>(co_await std::forward<decltype(work)>(work));
  } else {
    std::move(function)();
  }
  attempt.succeed();
}

}  // namespace gyre
