// SPDX-License-Identifier: Apache-2.0
// Something that happens, and coroutines that wait for it.
//
//     gyre::manual_reset_event ready;
//
//     co_await ready.wait();  // elsewhere: ready.set()
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/plain_wait.hpp>
#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>

#include <cassert>

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
class manual_reset_event {
 public:
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::plain_wait<manual_reset_event>;

  constexpr explicit manual_reset_event(bool initially_set = false) noexcept
      : state_(initially_set ? flag : 0) {}
  manual_reset_event(const manual_reset_event&) = delete;
  manual_reset_event& operator=(const manual_reset_event&) = delete;
  ~manual_reset_event() {
    assert(waiting_.empty() &&
           "a gyre::manual_reset_event was destroyed while a coroutine waited for it");
  }

  /// Awaited, waits until it is set. Does not look at the stop token if it is.
  wait_operation wait() noexcept { return wait_operation(*this); }

  /// Wakes all who wait, and lets all pass until reset(). If it wakes somebody, or who finds it set
  /// knows that he is the last, the event may be gone when this returns.
  void set() noexcept;
  /// From now on wait() waits.
  void reset() noexcept;
  [[nodiscard]] bool is_set() const noexcept {
    // acquire: pairs with the release in state_word::unlock().
    return (state_.load(std::memory_order_acquire) & flag) != 0;
  }

 private:
  friend wait_operation;
  friend detail::wait_operation<manual_reset_event>;

  static constexpr detail::state_word::word flag = 2;

  bool admit(detail::waiter&) const noexcept { return is_set(); }
  bool enlist(detail::waiter& arriving) noexcept;
  bool withdraw(detail::waiter& leaving) noexcept;

  detail::state_word state_;
  intrusive_list<detail::waiter> waiting_;
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
class auto_reset_event {
 public:
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::plain_wait<auto_reset_event>;

  constexpr explicit auto_reset_event(bool initially_set = false) noexcept
      : state_(initially_set ? flag : 0) {}
  auto_reset_event(const auto_reset_event&) = delete;
  auto_reset_event& operator=(const auto_reset_event&) = delete;
  ~auto_reset_event() {
    assert(waiting_.empty() &&
           "a gyre::auto_reset_event was destroyed while a coroutine waited for it");
  }

  /// Awaited, waits until it is set, and resets it. Does not look at the stop token unless it has
  /// to wait.
  wait_operation wait() noexcept { return wait_operation(*this); }
  /// Resets it, and returns whether it was set. May fail while others begin to wait.
  [[nodiscard]] bool try_wait() noexcept {
    detail::state_word::word set = flag;
    // acquire: pairs with the release in state_word::unlock().
    return state_.compare_exchange_strong(set, 0, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  /// Lets who has waited longest pass, or the next to come.
  void set() noexcept;
  /// Takes back a set() that let nobody pass yet.
  void reset() noexcept;
  /// Whether the next to come passes.
  [[nodiscard]] bool is_set() const noexcept {
    // acquire: pairs with the release in state_word::unlock().
    return (state_.load(std::memory_order_acquire) & flag) != 0;
  }

 private:
  friend wait_operation;
  friend detail::wait_operation<auto_reset_event>;

  static constexpr detail::state_word::word flag = 2;

  bool admit(detail::waiter&) noexcept { return try_wait(); }
  bool enlist(detail::waiter& arriving) noexcept;
  bool withdraw(detail::waiter& leaving) noexcept;

  detail::state_word state_;
  intrusive_list<detail::waiter> waiting_;
};

}  // namespace gyre
