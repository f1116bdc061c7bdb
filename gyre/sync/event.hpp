// SPDX-License-Identifier: Apache-2.0
// manual_reset_event, auto_reset_event: flags that coroutines wait for.
//
//     gyre::manual_reset_event ready;
//
//     co_await ready.wait();  // elsewhere: ready.set()
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>

namespace gyre {

/// A flag that stays set until reset(): set() wakes all waiters, in the order in which they came,
/// and happens before the end of their waits.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its waits. A waiter that finds the flag set, and knows that it is the
/// last, may destroy the event, even though set() has not returned yet.
/// Errors: a wait that is asked to stop throws operation_cancelled.
/// Complexity: wait() is one load when the flag is set; set() and reset() are one exchange, and
/// set() a post per waiter; no allocation; 24 bytes.
class manual_reset_event : detail::waiting_line<manual_reset_event> {
 public:
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::primitive_wait<void, manual_reset_event>;

  constexpr explicit manual_reset_event(bool initially_set = false) noexcept
      : waiting_line(initially_set ? flag : 0) {}

  /// Awaited, waits until the flag is set. A stop request has an effect only if the coroutine has
  /// to wait.
  wait_operation wait() noexcept { return wait_operation(*this); }

  /// Sets the flag, and so ends all waits.
  void set() noexcept {
    change([](word& state) { state |= flag; });
  }
  /// Clears the flag: later waits wait.
  void reset() noexcept {
    change([](word& state) { state &= ~flag; });
  }
  [[nodiscard]] bool is_set() const noexcept {
    // acquire: pairs with the release in state_word::unlock(); makes writes before set() visible.
    return (load(std::memory_order_acquire) & flag) != 0;
  }

 private:
  friend wait_operation;
  friend waiting_line;

  static constexpr bool takes_all_or_none = true;
  static constexpr word flag = 4;

  bool admit(detail::waiter&) const noexcept { return is_set(); }
  static bool take(word& state, const detail::waiter&) noexcept { return (state & flag) != 0; }
};

/// A flag that the first waiter to find it set resets: each set() ends one wait, first come, first
/// served, and happens before the end of that wait. Setting a set flag does nothing.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its waits.
/// Errors: a wait that is asked to stop throws operation_cancelled, and leaves the flag to others.
/// Complexity: set(), and wait() when the flag is set, are one exchange; no allocation; 24 bytes.
class auto_reset_event : detail::waiting_line<auto_reset_event> {
 public:
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::primitive_wait<void, auto_reset_event>;

  constexpr explicit auto_reset_event(bool initially_set = false) noexcept
      : waiting_line(initially_set ? flag : 0) {}

  /// Awaited, waits until the flag is set, and resets it. A stop request has an effect only if the
  /// coroutine has to wait.
  wait_operation wait() noexcept { return wait_operation(*this); }
  /// Resets the flag, and returns whether the flag was set. Returns false also while another wait
  /// begins.
  [[nodiscard]] bool try_wait() noexcept {
    word set = flag;
    // acquire: pairs with the release in state_word::unlock(); makes writes before set() visible.
    return compare_exchange_strong(set, 0, std::memory_order_acquire, std::memory_order_relaxed);
  }

  /// Sets the flag, and so ends one wait.
  void set() noexcept {
    change([](word& state) { state |= flag; });
  }
  /// Clears the flag.
  void reset() noexcept {
    change([](word& state) { state &= ~flag; });
  }
  [[nodiscard]] bool is_set() const noexcept {
    // acquire: pairs with the release in state_word::unlock(); makes writes before set() visible.
    return (load(std::memory_order_acquire) & flag) != 0;
  }

 private:
  friend wait_operation;
  friend waiting_line;

  static constexpr word flag = 4;

  bool admit(detail::waiter&) noexcept { return try_wait(); }
  static bool take(word& state, const detail::waiter&) noexcept {
    const bool was_set = (state & flag) != 0;
    state &= ~flag;
    return was_set;
  }
};

}  // namespace gyre
