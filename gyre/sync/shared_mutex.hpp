// SPDX-License-Identifier: Apache-2.0
// shared_mutex: a lock for many readers or one writer.
//
//     auto reading = co_await mutex.lock_shared();  // beside other readers
//
//     auto writing = co_await mutex.lock();  // alone
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>
#include <gyre/sync/guard.hpp>

#include <cassert>
#include <mutex>

namespace gyre {
namespace detail {

struct shared_mutex_waiter : waiter {
  explicit shared_mutex_waiter(bool writer) noexcept : writes(writer) {}
  const bool writes;
};

}  // namespace detail

/// A lock that one coroutine holds exclusively or several share, first come, first served: readers
/// wait after a waiting writer, and adjacent readers in the line lock together, so that neither
/// readers nor writers starve. Not recursive, not even for readers: a second lock after a writer
/// has begun to wait is a deadlock.
///
/// Thread-safety: every member may be called from any thread; another thread may release a lock.
/// Lifetime: must outlive its waits and guards.
/// Errors: a wait that is asked to stop throws operation_cancelled and does not hold the lock.
/// Complexity: uncontended, lock and unlock are one compare-exchange each; no allocation; 24 bytes.
class shared_mutex : detail::waiting_line<shared_mutex, detail::shared_mutex_waiter> {
 public:
  using guard = unique_guard<shared_mutex>;
  using shared = shared_guard<shared_mutex>;
  /// The awaitable of lock(), which returns a guard.
  using lock_operation = detail::primitive_wait<guard, shared_mutex, detail::shared_mutex_waiter>;
  /// The awaitable of lock_shared(), which returns a shared guard.
  using lock_shared_operation =
      detail::primitive_wait<shared, shared_mutex, detail::shared_mutex_waiter>;

  constexpr shared_mutex() noexcept = default;
  ~shared_mutex() {
    // relaxed: no order helps a mutex that is used while it is destroyed.
    assert(load(std::memory_order_relaxed) == 0 && "a gyre::shared_mutex was destroyed in use");
  }

  /// Awaited, locks exclusively. A stop request has an effect only if the coroutine has to wait.
  lock_operation lock() noexcept { return lock_operation(*this, true); }
  /// Awaited, locks together with other readers. A stop request has an effect only if the coroutine
  /// has to wait.
  lock_shared_operation lock_shared() noexcept { return lock_shared_operation(*this, false); }

  /// Locks if that is possible at once. May fail spuriously, like std::shared_mutex::try_lock(),
  /// while another wait is being cancelled. The caller unlocks, or makes a guard with
  /// std::adopt_lock.
  [[nodiscard]] bool try_lock() noexcept {
    word expected_word = 0;
    // acquire: pairs with the release in unlock(), unlock_shared() and state_word::unlock().
    return compare_exchange_strong(expected_word, written, std::memory_order_acquire,
                                   std::memory_order_relaxed);
  }
  /// Like try_lock(), but locks for a reader. Fails also if a coroutine waits.
  [[nodiscard]] bool try_lock_shared() noexcept {
    word state = load(std::memory_order_relaxed);
    while ((state & (busy | written)) == 0) {
      // acquire: pairs with the release in unlock() and state_word::unlock().
      if (compare_exchange_weak(state, state + reader, std::memory_order_acquire,
                                std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// Releases the lock of the writer.
  void unlock() noexcept {
    word expected_word = written;
    // release: pairs with the acquire of the next lock operation, which sees all writes under this
    // lock.
    if (!compare_exchange_strong(expected_word, 0, std::memory_order_release,
                                 std::memory_order_relaxed)) {
      hand_over(written);
    }
  }
  /// Releases the lock of a reader.
  void unlock_shared() noexcept {
    word state = load(std::memory_order_relaxed);
    while ((state & busy) == 0) {
      // release: pairs with the acquire of the next writer; each exchange of another reader
      // continues the release sequence.
      if (compare_exchange_weak(state, state - reader, std::memory_order_release,
                                std::memory_order_relaxed)) {
        return;
      }
    }
    hand_over(reader);
  }

 private:
  using waiter = detail::shared_mutex_waiter;
  friend waiting_line;
  friend lock_operation;
  friend lock_shared_operation;

  static constexpr word written = 4;  // set while a writer holds the lock
  static constexpr word reader = 8;   // added for each reader that holds the lock

  bool admit(waiter& node) noexcept { return node.writes ? try_lock() : try_lock_shared(); }
  template <class Guard>
  Guard grant(const waiter&) noexcept {
    return Guard(*this, std::adopt_lock);
  }
  void hand_over(word share) noexcept {
    change([share](word& state) {
      assert(state >= share && "unlocked a gyre::shared_mutex that is not locked");
      state -= share;
    });
  }
  static bool take(word& state, const waiter& next) noexcept {
    const word conflict_bits = next.writes ? ~awaited : written;
    if ((state & conflict_bits) != 0) return false;
    state += next.writes ? written : reader;
    return true;
  }
};

}  // namespace gyre
