// SPDX-License-Identifier: Apache-2.0
// state_word: the state of a primitive and the lock on its list of waiters, in one word. A caller
// that need not wait changes the state with a single compare-exchange, and the primitive may be
// destroyed as soon as its state says that it is unused, since unlocking is the store that says so.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstdint>

namespace gyre::detail {

/// Bit 0 locks; the other bits belong to the primitive. While it is locked only its holder changes
/// it, so that a compare-exchange from outside must expect the bit to be clear. Held for a few
/// instructions, never while an operation is posted or a user's code runs.
class state_word : public atomic<std::uint64_t> {
 public:
  using word = std::uint64_t;
  static constexpr word locked = 1;

  using atomic<word>::atomic;

  /// Waits until it is free, and returns the state without the bit.
  word lock() noexcept {
    // relaxed: a guess, which the exchange proves.
    word state = load(std::memory_order_relaxed) & ~locked;
    // acquire: pairs with the release in unlock() and in the exchanges of callers without the lock.
    if (compare_exchange_strong(state, state | locked, std::memory_order_acquire,
                                std::memory_order_relaxed)) {
      return state;
    }
    return lock_slowly();
  }

  /// From then on nothing of the primitive may be touched.
  void unlock(word state) noexcept {
    // release: pairs with the acquire in lock() and in the exchanges of callers without the lock.
    store(state, std::memory_order_release);
  }

 private:
  [[gnu::noinline]] word lock_slowly() noexcept {
    constexpr int spins = 64;  // more mean that the holder has lost the processor
    word state = load(std::memory_order_relaxed);
    for (int tries = 0;;) {
      if ((state & locked) != 0) {
        ++tries < spins ? cpu_relax() : thread_yield();
        state = load(std::memory_order_relaxed);
        // acquire: as in lock().
      } else if (compare_exchange_weak(state, state | locked, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return state;
      }
    }
  }
};

/// Holds the lock of a state_word for a scope, and stores `value` at the end of it.
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
