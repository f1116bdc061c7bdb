// SPDX-License-Identifier: Apache-2.0
// The protocol by which a thread that has nothing but wake-ups to wait for waits on a futex, and by
// which its wakers know when that is so.
#pragma once

#include <cstdint>

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>

namespace gyre::detail {

using futex_word = atomic<std::uint32_t>;

/// futex(2), between the threads of one process. Both calls are async-signal-safe.
struct system_futex {
  /// Unless `word` has another value than `expected`, waits for wake_one(), a signal or `deadline`,
  /// or returns for no reason. `steady_time::max()` is no deadline.
  static void wait(const futex_word& word, std::uint32_t expected, steady_time deadline) noexcept;
  /// Wakes one thread that waits, if any does.
  static void wake_one(const futex_word& word) noexcept;
};

/// Where one thread, the parker, waits for others to wake it.
///
/// A wake-up is never lost: it ends the present park(), or makes the next one return at once. What
/// a waker did before wake() is visible when that park() returns, whatever made it return.
///
/// The futex holds what the parker is doing. A waker leaves `woken` there and learns from what it
/// replaced whether there is anyone to wake; so of many wakers one pays for the system call.
template <typename Futex = system_futex>
class basic_parking_place {
 public:
  /// Waits until wake() is called, unless it was since the last park(), until a signal handler ran,
  /// until `deadline`, or for no reason. Parker only. Costs a system call, unless woken already.
  void park(steady_time deadline) noexcept {
    std::uint32_t seen = elsewhere;
    // relaxed: only the value counts; the exchange below acquires for it.
    if (state_.compare_exchange_strong(seen, parked, std::memory_order_relaxed,
                                       std::memory_order_relaxed)) {
      Futex::wait(state_, parked, deadline);
    }
    // acquire pairs with the release in wake(). Not a plain store: it would wipe out a wake-up that
    // came after the futex gave up by itself, and the parker need not see yet why it came.
    state_.exchange(elsewhere, std::memory_order_acquire);
  }

  /// Wakes the parker if it is parked, else makes its next park() return at once. Whether it was
  /// parked: if not, the caller must wake it from wherever else it may wait. Any thread;
  /// async-signal-safe. Costs a system call only where it returns true.
  bool wake() noexcept {
    // release pairs with the acquire at the end of park(), also where another exchange comes between
    // them: a read-modify-write continues the release sequence. Nothing is read of the parker's.
    if (state_.exchange(woken, std::memory_order_release) != parked) return false;
    Futex::wake_one(state_);
    return true;
  }

  /// Forgets a parker that did not survive a fork, and its wake-ups. While no other thread is here.
  void reset() noexcept {
    // relaxed: nobody to pair with.
    state_.store(elsewhere, std::memory_order_relaxed);
  }

 private:
  enum state : std::uint32_t { elsewhere, parked, woken };

  futex_word state_{elsewhere};
};

using parking_place = basic_parking_place<>;

}  // namespace gyre::detail
