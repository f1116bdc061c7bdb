// SPDX-License-Identifier: Apache-2.0
// spin_lock: the lock of a primitive whose state is more than a word, such as a channel.
#pragma once

#include <gyre/base/atomic.hpp>

namespace gyre::detail {

/// A lock to be held for a few instructions, never while an operation is posted. Unfair on purpose:
/// a thread that locks again at once finds the lock, and the data it protects, in its own cache.
/// May be destroyed as soon as no thread locks it any more: unlocking is a single store.
class spin_lock {
 public:
  void lock() noexcept {
    // acquire: pairs with the release in unlock(); makes the previous holder's writes visible.
    if (is_locked_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  bool try_lock() noexcept {
    // relaxed: the load is only a check, which leaves the cache line with the holder. acquire:
    // pairs with the release in unlock().
    return !is_locked_.load(std::memory_order_relaxed) &&
           !is_locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept {
    // release: pairs with the acquire in lock() and try_lock().
    is_locked_.store(false, std::memory_order_release);
  }
  /// Waits until the lock is free. The caller knows that no thread will lock it again.
  void wait_until_free() const noexcept {
    // acquire: pairs with the release in unlock().
    while (is_locked_.load(std::memory_order_acquire)) thread_yield();
  }

 private:
  [[gnu::noinline]] void lock_slowly() noexcept {
    // Each pause is twice as long as the last: under contention the holder locks many times in a
    // row, which costs all threads less than moving the cache line between cores.
    constexpr int max_pause_length = 64;
    // A number of pauses; a holder that takes longer was probably preempted.
    constexpr int max_pauses = 16;
    int pause = 1;
    int pauses = 0;
    do {
      // relaxed: the load is only a check; the exchange below acquires.
      while (is_locked_.load(std::memory_order_relaxed)) {
        if (++pauses > max_pauses) {
          thread_yield();
        } else {
          for (int i = 0; i < pause; ++i) cpu_relax();
          if (pause < max_pause_length) pause *= 2;
        }
      }
      // acquire: pairs with the release in unlock().
    } while (is_locked_.exchange(true, std::memory_order_acquire));
  }

  atomic<bool> is_locked_{false};
};

}  // namespace gyre::detail
