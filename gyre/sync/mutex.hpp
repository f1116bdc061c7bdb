// SPDX-License-Identifier: Apache-2.0
// Mutual exclusion of coroutines, across their waits.
//
//     gyre::mutex mutex;
//
//     auto guard = co_await mutex.lock();
//     co_await file.write(record);  // nobody else gets in between
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/guard_wait.hpp>
#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/guard.hpp>

#include <cassert>

namespace gyre {

class condition_variable;

/// A lock that coroutines wait for without blocking a thread. Where nothing is awaited while it is
/// held, std::mutex does as well.
///
/// Cost          lock and unlock one compare-exchange each, if nobody waits; no allocation, 24
///               bytes
/// Fairness      first come, first served: unlock() hands it to who has waited longest
/// Cancellation  a wait that is cancelled never holds the lock; operation_cancelled
/// Threads       any; it may be unlocked on another thread than it was locked on
///
/// Not recursive. It must outlive its waits and guards. Whoever knows that he is its last user may
/// destroy it as soon as he has unlocked it, or seen it unlocked.
class mutex {
 public:
  using guard = unique_guard<mutex>;
  /// The awaitable of lock(), which returns a guard.
  using lock_operation = detail::guard_wait<guard, mutex>;

  constexpr mutex() noexcept = default;
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;
  ~mutex() {
    // relaxed: a mutex that is used while it is destroyed is lost anyway.
    assert(state_.load(std::memory_order_relaxed) == 0 && "a gyre::mutex was destroyed in use");
  }

  /// Awaited, locks, after those who wait already, and gives a guard. Does not look at the stop
  /// token unless it has to wait.
  lock_operation lock() noexcept { return lock_operation(*this); }

  /// Locks if that is possible at once. May fail, as the standard's may, while another attempt is
  /// being given up. The caller unlocks, or passes it to guard(mutex, std::adopt_lock).
  [[nodiscard]] bool try_lock() noexcept {
    detail::state_word::word free = 0;
    // acquire: pairs with the release in unlock(), and with that of state_word::unlock().
    return state_.compare_exchange_strong(free, held, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  /// Hands it to the coroutine that has waited longest, which goes on on its own executor.
  void unlock() noexcept {
    detail::state_word::word alone = held;
    // release: pairs with the acquire of whoever locks next.
    if (!state_.compare_exchange_strong(alone, 0, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      hand_over();
    }
  }

 private:
  friend condition_variable;
  friend lock_operation;
  friend detail::wait_operation<mutex>;

  static constexpr detail::state_word::word held = 2;
  static constexpr detail::state_word::word awaited = 4;  // somebody is in the list

  bool admit(detail::waiter&) noexcept { return try_lock(); }
  bool enlist(detail::waiter& arriving) noexcept;
  bool withdraw(detail::waiter& leaving) noexcept;
  void hand_over() noexcept;
  /// Lets each of `line` have it in its turn, and then wakes it.
  void enqueue(intrusive_list<detail::waiter>& line) noexcept;

  detail::state_word state_;
  intrusive_list<detail::waiter> waiting_;
};

}  // namespace gyre
