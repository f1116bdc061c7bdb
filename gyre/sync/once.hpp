// SPDX-License-Identifier: Apache-2.0
// Doing something at most once, however many coroutines ask for it.
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

/// Whether something was done that is to be done once; see call_once().
///
/// Cost          one load when it was done; no allocation, 24 bytes
/// Fairness      if an attempt fails, who has waited longest makes the next
/// Cancellation  cancelling a wait changes nothing; cancelling the attempt makes it fail;
///               operation_cancelled
/// Threads       any
///
/// It must outlive the calls.
class once_flag : detail::waiting_line<once_flag> {
 public:
  constexpr once_flag() noexcept = default;

  /// Whether a call has succeeded. What it did happens before the return of true.
  [[nodiscard]] bool done() const noexcept {
    // acquire: pairs with the release in state_word::unlock().
    return (load(std::memory_order_acquire) & succeeded) != 0;
  }

 private:
  using entry = detail::primitive_wait<void, once_flag>;
  friend entry;
  friend waiting_line;
  template <std::invocable Function>
  friend task<> call_once(once_flag& flag, Function function);

  /// The turn of the coroutine that makes the attempt, which fails unless succeed() is called.
  class attempt {
   public:
    explicit attempt(once_flag& flag) noexcept : flag_(flag) {}
    attempt(const attempt&) = delete;
    attempt& operator=(const attempt&) = delete;
    ~attempt() { flag_.end_attempt(succeeded_); }
    void succeed() noexcept { succeeded_ = true; }

   private:
    once_flag& flag_;
    bool succeeded_ = false;
  };

  static constexpr word succeeded = 4;
  static constexpr word attempted = 8;  // by one coroutine

  bool admit(detail::waiter&) const noexcept { return done(); }
  static bool take(word& now, const detail::waiter&) noexcept {
    if ((now & attempted) != 0) return false;
    if ((now & succeeded) == 0) now |= attempted;
    return true;
  }
  void end_attempt(bool success) noexcept;
};

extern template class detail::waiting_line<once_flag>;

/// Awaited, calls `function` unless an earlier call with `flag` has succeeded, and awaits what that
/// returns, if it can be awaited. Waits while another coroutine is at it. If the function fails,
/// who waits makes the next attempt, and this throws what the function threw. As std::call_once;
/// costs a coroutine frame, which asking flag.done() first saves.
template <std::invocable Function>
task<> call_once(once_flag& flag, Function function) {
  if (flag.done()) co_return;
  co_await once_flag::entry(flag);
  if (flag.done()) co_return;
  once_flag::attempt mine(flag);
  if constexpr (awaitable<std::invoke_result_t<Function>>) {
    auto&& work = std::move(function)();
    static_cast<void>(co_await std::forward<decltype(work)>(work));
  } else {
    std::move(function)();
  }
  mine.succeed();
}

}  // namespace gyre
