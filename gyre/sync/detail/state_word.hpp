// SPDX-License-Identifier: Apache-2.0
// state_word: the state of a primitive and the lock on its list of waiters, in one word. A caller
// that need not wait changes the state with a single compare-exchange, and the primitive may be
// destroyed as soon as its state shows that it is unused, because unlocking is the store of that
// state.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// Bit 0 is the lock; the other bits belong to the primitive. While the word is locked, only the
/// holder of the lock changes it, so a compare-exchange by another caller must expect bit 0 to be
/// clear. The lock is held for a few instructions, never while an operation is posted or user code
/// runs.
class state_word : public atomic<std::uint64_t> {
 public:
  using word = std::uint64_t;
  static constexpr word locked = 1;

  using atomic<word>::atomic;

  /// Waits until the lock is free, takes it, and returns the state without bit 0.
  word lock() noexcept {
    // relaxed: the value is a guess, which the compare-exchange verifies.
    word state = load(std::memory_order_relaxed) & ~locked;
    // acquire: pairs with the release in unlock() and in the exchanges of callers without the lock.
    if (compare_exchange_strong(state, state | locked, std::memory_order_acquire,
                                std::memory_order_relaxed)) {
      return state;
    }
    return lock_slowly();
  }

  /// Stores `state` and unlocks. The primitive may be destroyed by then: the caller must not touch
  /// it any more.
  void unlock(word state) noexcept {
    // release: pairs with the acquire in lock() and in the exchanges of callers without the lock.
    store(state, std::memory_order_release);
  }

 private:
  [[gnu::noinline]] word lock_slowly() noexcept {
    // A number of pauses; a holder that takes longer was probably preempted.
    constexpr int spins = 64;
    word state = load(std::memory_order_relaxed);
    for (int tries = 0;;) {
      if ((state & locked) != 0) {
        ++tries < spins ? cpu_relax() : thread_yield();
        state = load(std::memory_order_relaxed);
        // acquire: pairs with the release in unlock().
      } else if (compare_exchange_weak(state, state | locked, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return state;
      }
    }
  }
};

/// Holds the lock of a state_word for a scope, and stores `value` at the end of the scope.
class locked_state {
 public:
  explicit locked_state(state_word& state) noexcept : value(state.lock()), state_(state) {}
  locked_state& operator=(locked_state&&) = delete;
  ~locked_state() { state_.unlock(value); }

  state_word::word value;

 private:
  state_word& state_;
};

}  // namespace gyre::detail
