// SPDX-License-Identifier: Apache-2.0
// A lock for many who read or one who writes.
//
//     auto reading = co_await mutex.lock_shared();  // beside other readers
//
//     auto writing = co_await mutex.lock();  // alone
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/guard_wait.hpp>
#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/guard.hpp>

#include <cassert>

namespace gyre {

namespace detail {

struct shared_mutex_waiter : waiter {
  explicit shared_mutex_waiter(bool writer) noexcept : writes(writer) {}
  const bool writes;
};

}  // namespace detail

/// A lock that is held by one coroutine exclusively or by any number of them together.
///
/// Cost          lock and unlock one compare-exchange each, if nobody waits; no allocation, 24
///               bytes
/// Fairness      first come, first served. Readers who come while a writer waits wait behind it, so
///               readers cannot starve writers; readers next to each other in the line go in
///               together, so neither can writers starve readers
/// Cancellation  a wait that is cancelled never holds the lock, and lets those go on who waited
///               only because of it; operation_cancelled
/// Threads       any; it may be unlocked on another thread than it was locked on
///
/// Not recursive, not even for readers: one who locks again while a writer waits waits for ever. It
/// must outlive its waits and guards.
class shared_mutex {
 public:
  using guard = unique_guard<shared_mutex>;
  using shared = shared_guard<shared_mutex>;
  /// The awaitable of lock(), which returns a guard.
  using lock_operation = detail::guard_wait<guard, shared_mutex, detail::shared_mutex_waiter>;
  /// The awaitable of lock_shared(), which returns a shared guard.
  using lock_shared_operation =
      detail::guard_wait<shared, shared_mutex, detail::shared_mutex_waiter>;

  constexpr shared_mutex() noexcept = default;
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;
  ~shared_mutex() {
    // relaxed: a mutex that is used while it is destroyed is lost anyway.
    assert(state_.load(std::memory_order_relaxed) == 0 &&
           "a gyre::shared_mutex was destroyed in use");
  }

  /// Awaited, locks for one alone, in its turn. Does not look at the stop token unless it has to
  /// wait.
  lock_operation lock() noexcept { return lock_operation(*this, true); }
  /// Awaited, locks for this and other readers, in its turn. Does not look at the stop token unless
  /// it has to wait.
  lock_shared_operation lock_shared() noexcept { return lock_shared_operation(*this, false); }

  /// Locks if that is possible at once. May fail, as the standard's may, while another attempt is
  /// being given up. The caller unlocks, or passes it to a guard with std::adopt_lock.
  [[nodiscard]] bool try_lock() noexcept {
    word free = 0;
    // acquire: pairs with the release in unlock(), unlock_shared() and state_word::unlock().
    return state_.compare_exchange_strong(free, written, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  /// The same for readers. Fails also if somebody waits.
  [[nodiscard]] bool try_lock_shared() noexcept {
    word now = state_.load(std::memory_order_relaxed);
    while ((now & (busy | written)) == 0) {
      // acquire: pairs with the release in unlock() and state_word::unlock().
      if (state_.compare_exchange_weak(now, now + reader, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void unlock() noexcept {
    word alone = written;
    // release: pairs with the acquire of whoever locks next.
    if (!state_.compare_exchange_strong(alone, 0, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      hand_over(written);
    }
  }
  void unlock_shared() noexcept {
    word now = state_.load(std::memory_order_relaxed);
    while ((now & busy) == 0) {
      // release: pairs with the acquire of the writer that comes next; each exchange of another
      // reader continues the release sequence.
      if (state_.compare_exchange_weak(now, now - reader, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return;
      }
    }
    hand_over(reader);
  }

 private:
  using word = detail::state_word::word;
  using waiter = detail::shared_mutex_waiter;
  friend lock_operation;
  friend lock_shared_operation;
  friend detail::wait_operation<shared_mutex, waiter>;

  static constexpr word awaited = 2;  // somebody is in the list
  static constexpr word busy = detail::state_word::locked | awaited;
  static constexpr word written = 4;
  static constexpr word reader = 8;  // each

  bool admit(waiter& arriving) noexcept { return arriving.writes ? try_lock() : try_lock_shared(); }
  bool enlist(waiter& arriving) noexcept;
  bool withdraw(waiter& leaving) noexcept;
  void hand_over(word share) noexcept;
  static bool enter(word& now, const waiter& next) noexcept;
  void let_in(word& now, detail::woken_waiters& ready) noexcept;

  detail::state_word state_;
  intrusive_list<waiter> waiting_;
};

}  // namespace gyre
