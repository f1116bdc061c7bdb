// SPDX-License-Identifier: Apache-2.0
// thread_parker: park() puts its thread to sleep on a futex, unpark() by another thread ends that.
// Pollers use it while they have nothing but wake-ups to wait for.
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

/// Where one thread, the owner, waits for others to wake it.
///
/// A wake-up is never lost: it ends the present park(), or makes the next one return at once. All
/// that a waker did before unpark() is visible when that park() returns, for whatever reason.
///
/// The futex's word holds the state. A waker leaves `notified` there and learns from the state that
/// it replaced whether the owner sleeps; so of many wakers one pays for the system call.
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
    std::uint32_t seen = empty;
    // relaxed: only the value counts; the exchange below acquires for it.
    if (state_.compare_exchange_strong(seen, parked, std::memory_order_relaxed,
                                       std::memory_order_relaxed)) {
      Futex::wait(state_, parked, deadline);
    }
    // acquire pairs with the release in unpark(). Not a plain store: it would wipe out a wake-up
    // that came after the futex gave up by itself, and the owner need not see yet why it came.
    state_.exchange(empty, std::memory_order_acquire);
  }
  /// Wakes the owner if it is parked, else makes its next park() return at once. Returns whether it
  /// was parked: if not, the caller must wake it from wherever else it may wait. Any thread;
  /// async-signal-safe. One system call where it returns true, else none.
  bool unpark() noexcept {
    // release pairs with the acquire at the end of park(), also where another exchange comes
    // between them: a read-modify-write continues the release sequence. Nothing is read of the
    // owner's.
    if (state_.exchange(notified, std::memory_order_release) != parked) return false;
    Futex::wake_one(state_);
    return true;
  }
  /// Forgets an owner that did not survive a fork, and its wake-ups. While no other thread is here.
  void reset() noexcept {
    // relaxed: nobody to pair with.
    state_.store(empty, std::memory_order_relaxed);
  }

 private:
  enum state : std::uint32_t { empty, parked, notified };

  atomic<std::uint32_t> state_{empty};
};

using thread_parker = basic_thread_parker<>;

}  // namespace gyre::detail
