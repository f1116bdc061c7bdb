// SPDX-License-Identifier: Apache-2.0
// spin_lock: the lock of a primitive whose state is more than a word, such as a channel.
#pragma once

#include <gyre/base/atomic.hpp>

namespace gyre::detail {

/// A lock to be held for a few instructions, never while an operation is posted. Unfair on purpose:
/// a thread that comes back at once finds the lock, and the data it protects, in its own cache. May
/// be destroyed as soon as no thread locks it any more: unlocking is a single store.
class spin_lock {
 public:
  void lock() noexcept {
    // acquire: pairs with the release in unlock().
    if (locked_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      lock_slowly();
  }
  bool try_lock() noexcept {
    // relaxed: a look, which leaves the cache line to the holder; acquire: as in lock().
    return !locked_.load(std::memory_order_relaxed) &&
           !locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept {
    // release: pairs with the acquire in lock() and try_lock().
    locked_.store(false, std::memory_order_release);
  }
  /// Waits until it is free. For a caller that knows that nobody will lock it any more.
  void wait_until_free() const noexcept {
    // acquire: pairs with the release in unlock().
    while (locked_.load(std::memory_order_acquire)) thread_yield();
  }

 private:
  [[gnu::noinline]] void lock_slowly() noexcept {
    // Each pause is twice as long as the last: under contention the holder gets many turns in a
    // row, which is cheaper for everybody than handing the cache line to and fro.
    constexpr int longest = 64;
    constexpr int patience = 16;  // pauses; after more the holder has lost the processor
    int pause = 1;
    int pauses = 0;
    do {
      // relaxed: a look; the exchange acquires.
      while (locked_.load(std::memory_order_relaxed)) {
        if (++pauses > patience) {
          thread_yield();
        } else {
          for (int i = 0; i < pause; ++i) cpu_relax();
          if (pause < longest) pause *= 2;
        }
      }
      // acquire: pairs with the release in unlock().
    } while (locked_.exchange(true, std::memory_order_acquire));
  }

  atomic<bool> locked_{false};
};

}  // namespace gyre::detail
