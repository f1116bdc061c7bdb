// SPDX-License-Identifier: Apache-2.0
// mutex: mutual exclusion of coroutines, across their waits.
//
//     gyre::mutex mutex;
//
//     auto guard = co_await mutex.lock();
//     co_await file.write(record);  // nobody else gets in between
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>
#include <gyre/sync/guard.hpp>

#include <cassert>
#include <mutex>

namespace gyre {

class condition_variable;

/// A lock that coroutines wait for without blocking a thread, first come, first served. Not
/// recursive. If nothing is awaited while it is held, std::mutex does as well.
///
/// Thread-safety: every member may be called from any thread; unlock() may run on another thread
/// than lock().
/// Lifetime: must outlive its waits and guards. The last user may destroy the mutex as soon as it
/// has unlocked it, or seen it unlocked.
/// Errors: a wait that is asked to stop throws operation_cancelled and does not hold the lock.
/// Complexity: uncontended, lock and unlock are one compare-exchange each; no allocation; 24 bytes.
class mutex : detail::waiting_line<mutex> {
 public:
  using guard = unique_guard<mutex>;
  /// The awaitable of lock(), which returns a guard.
  using lock_operation = detail::primitive_wait<guard, mutex>;

  constexpr mutex() noexcept = default;
  ~mutex() {
    // relaxed: no order helps a mutex that is used while it is destroyed.
    assert(load(std::memory_order_relaxed) == 0 && "a gyre::mutex was destroyed in use");
  }

  /// Awaited, locks after the present waiters and returns a guard. A stop request has an effect
  /// only if the coroutine has to wait.
  lock_operation lock() noexcept { return lock_operation(*this); }

  /// Locks if that is possible at once. May fail spuriously, like std::mutex::try_lock(), while
  /// another wait is being cancelled. The caller unlocks, or makes a guard(mutex, std::adopt_lock).
  [[nodiscard]] bool try_lock() noexcept {
    word expected_word = 0;
    // acquire: pairs with the release in unlock() and state_word::unlock().
    return compare_exchange_strong(expected_word, held, std::memory_order_acquire,
                                   std::memory_order_relaxed);
  }

  /// Hands the lock to the coroutine that has waited longest, which resumes on its executor.
  void unlock() noexcept {
    word expected_word = held;
    // release: pairs with the acquire of the next lock operation, which sees all writes under this
    // lock.
    if (!compare_exchange_strong(expected_word, 0, std::memory_order_release,
                                 std::memory_order_relaxed)) {
      change([](word& state) {
        assert((state & held) != 0 && "unlocked a gyre::mutex that is not locked");
        state &= ~held;
      });
    }
  }

 private:
  friend condition_variable;
  friend lock_operation;
  friend waiting_line;

  static constexpr bool records_waits = true;  // the flight recorder records waits
  static constexpr word held = 4;              // set while the mutex is locked

  static bool take(word& state, const detail::waiter&) noexcept {
    if ((state & held) != 0) return false;
    state |= held;
    return true;
  }
  bool admit(detail::waiter&) noexcept { return try_lock(); }
  template <class Guard>
  Guard grant(const detail::waiter&) noexcept {
    return Guard(*this, std::adopt_lock);
  }
};

}  // namespace gyre
