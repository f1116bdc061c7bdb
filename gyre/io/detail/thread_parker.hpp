// SPDX-License-Identifier: Apache-2.0
// thread_parker: park() blocks its thread on a futex until another thread calls unpark(). Pollers
// use it while they wait for nothing but wake-ups.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>

#include <cstdint>

namespace gyre::detail {

/// The calls of futex(2) that a parker makes.
struct system_futex {
  static void wait(const atomic<std::uint32_t>& word, std::uint32_t expected,
                   steady_time deadline) noexcept {
    futex_wait_until(word, expected, deadline);
  }
  static void wake_one(const atomic<std::uint32_t>& word) noexcept { futex_wake_one(&word); }
};

/// A futex on which one thread, the owner, waits for other threads to wake it.
///
/// A wake-up is never lost: it ends the present park(), or makes the next park() return at once.
/// Everything that a waker did before unpark() is visible when that park() returns, for whatever
/// reason.
///
/// The futex's word holds the state. A waker stores `notified`, and the state that it replaced
/// shows whether the owner sleeps; so only one of many wakers makes the system call.
///
///              | park()               | unpark(): returns   | the wait ends
///     empty    | parked, then waits   | notified: false     |
///     parked   |                      | notified: true      | empty
///     notified | empty, without wait  | notified: false     | empty
template <typename Futex = system_futex>
class basic_thread_parker {
 public:
  /// Waits for unpark(), a signal handler or `deadline`, or returns for no reason; at once if
  /// unpark() was called since the last park(). Owner only. One system call, unless it returns at
  /// once.
  void park(steady_time deadline) noexcept {
    std::uint32_t expected_state = empty;
    // relaxed: publishes nothing; the exchange below acquires what unpark() released.
    if (state_.compare_exchange_strong(expected_state, parked, std::memory_order_relaxed,
                                       std::memory_order_relaxed)) {
      Futex::wait(state_, parked, deadline);
    }
    // acquire: pairs with the release in unpark(). A plain store would overwrite a wake-up that
    // came after the futex call had returned for another reason, and could miss the waker's writes.
    state_.exchange(empty, std::memory_order_acquire);
  }
  /// Wakes the owner if it is parked; otherwise makes its next park() return at once. Returns
  /// whether the owner was parked: if not, the caller must wake it from any other wait. Any thread;
  /// async-signal-safe. One system call if it returns true, otherwise none.
  bool unpark() noexcept {
    // release: pairs with the acquire at the end of park(), even if another exchange comes between
    // them, because a read-modify-write continues the release sequence. No acquire: unpark() reads
    // nothing that the owner wrote.
    if (state_.exchange(notified, std::memory_order_release) != parked) return false;
    Futex::wake_one(state_);
    return true;
  }
  /// Drops the state of an owner that did not survive a fork. Only while no other thread uses the
  /// parker.
  void reset() noexcept {
    // relaxed: no other thread uses the parker.
    state_.store(empty, std::memory_order_relaxed);
  }

 private:
  enum state : std::uint32_t { empty, parked, notified };

  atomic<std::uint32_t> state_{empty};
};

using thread_parker = basic_thread_parker<>;

}  // namespace gyre::detail
