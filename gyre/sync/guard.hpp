// SPDX-License-Identifier: Apache-2.0
// unique_guard, shared_guard: owners of a lock.
#pragma once

#include <mutex>
#include <utility>

namespace gyre {
namespace detail {

struct exclusive_access {
  static bool try_lock(auto& mutex) noexcept { return mutex.try_lock(); }
  static void unlock(auto& mutex) noexcept { mutex.unlock(); }
};

struct shared_access {
  static bool try_lock(auto& mutex) noexcept { return mutex.try_lock_shared(); }
  static void unlock(auto& mutex) noexcept { mutex.unlock_shared(); }
};

}  // namespace detail

/// Holds a lock until it is destroyed or unlock() is called. Movable; one pointer.
///
/// Thread-safety: may unlock on another thread than the one that locked.
/// Lifetime: the mutex must outlive the guard.
template <class Mutex, class Access>
class [[nodiscard]] basic_guard {
 public:
  using mutex_type = Mutex;

  /// Makes a guard that holds no lock.
  constexpr basic_guard() noexcept = default;
  /// Takes over a lock of `mutex` that the caller holds.
  basic_guard(Mutex& mutex, std::adopt_lock_t) noexcept : mutex_(&mutex) {}
  /// Locks `mutex` if it is free; see owns_lock().
  basic_guard(Mutex& mutex, std::try_to_lock_t) noexcept
      : mutex_(Access::try_lock(mutex) ? &mutex : nullptr) {}
  basic_guard(basic_guard&& other) noexcept : mutex_(other.release()) {}
  basic_guard& operator=(basic_guard&& other) noexcept {
    basic_guard(std::move(other)).swap(*this);
    return *this;
  }
  ~basic_guard() { unlock(); }

  [[nodiscard]] bool owns_lock() const noexcept { return mutex_ != nullptr; }
  explicit operator bool() const noexcept { return owns_lock(); }
  /// Returns the mutex that is held, or null.
  [[nodiscard]] Mutex* mutex() const noexcept { return mutex_; }

  /// Unlocks now, if the guard holds a lock.
  void unlock() noexcept {
    if (Mutex* const target = release()) Access::unlock(*target);
  }
  /// Disowns the lock without unlocking: the caller must unlock the returned mutex, if any.
  Mutex* release() noexcept { return std::exchange(mutex_, nullptr); }
  void swap(basic_guard& other) noexcept { std::swap(mutex_, other.mutex_); }

 private:
  Mutex* mutex_ = nullptr;
};

/// Owns an exclusive lock.
template <class Mutex>
using unique_guard = basic_guard<Mutex, detail::exclusive_access>;

/// Owns a share of a lock.
template <class Mutex>
using shared_guard = basic_guard<Mutex, detail::shared_access>;

}  // namespace gyre
