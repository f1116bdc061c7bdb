// SPDX-License-Identifier: Apache-2.0
// Something that happens, and coroutines that wait for it.
//
//     gyre::manual_reset_event ready;
//
//     co_await ready.wait();  // elsewhere: ready.set()
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>

namespace gyre {

/// A flag: while it is set nobody waits for it.
///
/// Cost          wait() when set one load; set() and reset() one exchange, and set() a post for
///               each waiter, which it collects under a spin lock; no allocation, 24 bytes
/// Fairness      set() wakes all, in the order of their coming
/// Cancellation  a wait that is cancelled changes nothing; operation_cancelled
/// Threads       any
///
/// It must outlive its waits. What happened before set() happens before the end of the wait.
class manual_reset_event : detail::waiting_line<manual_reset_event> {
 public:
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::primitive_wait<void, manual_reset_event>;

  constexpr explicit manual_reset_event(bool initially_set = false) noexcept
      : waiting_line(initially_set ? flag : 0) {}

  /// Awaited, waits until it is set. Does not look at the stop token if it is.
  wait_operation wait() noexcept { return wait_operation(*this); }

  /// Wakes all who wait, and lets all pass until reset(). If it wakes somebody, or who finds it set
  /// knows that he is the last, the event may be gone when this returns.
  void set() noexcept;
  /// From now on wait() waits.
  void reset() noexcept;
  [[nodiscard]] bool is_set() const noexcept {
    // acquire: pairs with the release in state_word::unlock().
    return (load(std::memory_order_acquire) & flag) != 0;
  }

 private:
  friend wait_operation;
  friend waiting_line;

  static constexpr word flag = 4;

  bool admit(detail::waiter&) const noexcept { return is_set(); }
  static bool take(word& now, const detail::waiter&) noexcept { return (now & flag) != 0; }
};

/// A flag that the first to find it set takes away: each set() lets one pass. Several set() without
/// anybody passing count once.
///
/// Cost          wait() when set, and set(), one exchange; no allocation, 24 bytes
/// Fairness      first come, first served
/// Cancellation  a wait that is cancelled leaves the flag to others; operation_cancelled
/// Threads       any
///
/// It must outlive its waits. What happened before set() happens before the end of the wait.
class auto_reset_event : detail::waiting_line<auto_reset_event> {
 public:
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::primitive_wait<void, auto_reset_event>;

  constexpr explicit auto_reset_event(bool initially_set = false) noexcept
      : waiting_line(initially_set ? flag : 0) {}

  /// Awaited, waits until it is set, and resets it. Does not look at the stop token unless it has
  /// to wait.
  wait_operation wait() noexcept { return wait_operation(*this); }
  /// Resets it, and returns whether it was set. May fail while others begin to wait.
  [[nodiscard]] bool try_wait() noexcept {
    word set = flag;
    // acquire: pairs with the release in state_word::unlock().
    return compare_exchange_strong(set, 0, std::memory_order_acquire, std::memory_order_relaxed);
  }

  /// Lets who has waited longest pass, or the next to come.
  void set() noexcept;
  /// Takes back a set() that let nobody pass yet.
  void reset() noexcept;
  /// Whether the next to come passes.
  [[nodiscard]] bool is_set() const noexcept {
    // acquire: pairs with the release in state_word::unlock().
    return (load(std::memory_order_acquire) & flag) != 0;
  }

 private:
  friend wait_operation;
  friend waiting_line;

  static constexpr word flag = 4;

  bool admit(detail::waiter&) noexcept { return try_wait(); }
  static bool take(word& now, const detail::waiter&) noexcept {
    const bool was_set = (now & flag) != 0;
    now &= ~flag;
    return was_set;
  }
};

extern template class detail::waiting_line<manual_reset_event>;
extern template class detail::waiting_line<auto_reset_event>;

}  // namespace gyre
