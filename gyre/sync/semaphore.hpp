// SPDX-License-Identifier: Apache-2.0
// semaphore: a counter of permits that coroutines wait for.
//
//     gyre::semaphore connections(100);
//
//     auto permit = co_await connections.permit();
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <utility>

namespace gyre {

class semaphore;

namespace detail {

class blocked_acquire;  // NOLINT(cppcoreguidelines-virtual-class-destructor): it is final

/// A waiter for permits. `permits` is first the number requested, and after the wait the number
/// granted: all, fewer after serve_waits(), or none if the semaphore was closed.
struct semaphore_waiter : waiter {
  explicit semaphore_waiter(std::uint64_t count) noexcept : permits(count) {}
  std::uint64_t permits;
};

}  // namespace detail

/// Permits of a semaphore, released when this object is destroyed. The semaphore must outlive it.
class [[nodiscard]] semaphore_permit {
 public:
  /// Makes an object that holds no permits.
  constexpr semaphore_permit() noexcept = default;
  /// Adopts `count` permits of `source` that the caller has acquired.
  semaphore_permit(semaphore& source, std::uint64_t count) noexcept
      : source_(&source), count_(count) {}
  semaphore_permit(semaphore_permit&& other) noexcept
      : source_(other.source_), count_(other.forget()) {}
  semaphore_permit& operator=(semaphore_permit&& other) noexcept {
    semaphore_permit source(std::move(other));
    std::swap(source_, source.source_);
    std::swap(count_, source.count_);
    return *this;
  }
  ~semaphore_permit() { release(); }

  /// Returns the number of permits held.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Releases the permits now.
  inline void release() noexcept;
  /// Disowns the permits, which the caller must then release, and returns their number.
  std::uint64_t forget() noexcept { return std::exchange(count_, 0); }

 private:
  semaphore* source_ = nullptr;
  std::uint64_t count_ = 0;
};

/// A counter of permits that coroutines take, and wait for while there are too few; first come,
/// first served, also for many permits at once. Like std::counting_semaphore, a semaphore may get
/// more permits than it had at first.
///
/// Thread-safety: every member may be called from any thread; a permit may be released by another
/// thread or coroutine than acquired it.
/// Lifetime: must outlive its waits and permits.
/// Errors: a wait that is asked to stop throws operation_cancelled and takes nothing.
/// Complexity: acquire and release are one compare-exchange each while nothing waits; no
/// allocation; 24 bytes.
class semaphore : detail::waiting_line<semaphore, detail::semaphore_waiter> {
 public:
  /// The awaitable of acquire(), without a result.
  using acquire_operation = detail::primitive_wait<void, semaphore, detail::semaphore_waiter>;
  /// The awaitable of permit(), which returns a semaphore_permit.
  using permit_operation =
      detail::primitive_wait<semaphore_permit, semaphore, detail::semaphore_waiter>;

  /// Returns the largest number of permits.
  [[nodiscard]] static constexpr std::uint64_t max() noexcept { return ~word{0} / one; }

  /// Makes a semaphore that has `permits` permits.
  constexpr explicit semaphore(std::uint64_t permits) noexcept : waiting_line(permits * one) {
    assert(permits <= max());
  }

  /// Awaited, takes `permits` after the present waiters. A stop request has an effect only if the
  /// coroutine has to wait.
  acquire_operation acquire(std::uint64_t permits = 1) noexcept {
    return acquire_operation(*this, permits);
  }
  /// Like acquire(), but returns a semaphore_permit, whose destructor releases the permits.
  permit_operation permit(std::uint64_t permits = 1) noexcept {
    return permit_operation(*this, permits);
  }

  /// Takes `permits` if there are enough and nothing waits. May fail spuriously, like that of
  /// std::counting_semaphore, while another coroutine begins or ends a wait.
  [[nodiscard]] bool try_acquire(std::uint64_t permits = 1) noexcept {
    word state = load(std::memory_order_relaxed);
    while ((state & busy) == 0 && state / one >= permits) {
      // acquire: pairs with the release in release() and state_word::unlock(); makes writes before
      // release() visible.
      if (compare_exchange_weak(state, state - permits * one, std::memory_order_acquire,
                                std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  /// Like try_acquire(), but takes as many permits as are free, at most `max_permits`. Returns the
  /// number of permits taken; 0 if another caller waits.
  [[nodiscard]] std::uint64_t try_acquire_some(std::uint64_t max_permits) noexcept {
    word state = load(std::memory_order_relaxed);
    while ((state & busy) == 0) {
      const std::uint64_t permits = std::min(state / one, max_permits);
      if (permits == 0) break;
      // acquire: pairs with the release in release() and state_word::unlock().
      if (compare_exchange_weak(state, state - permits * one, std::memory_order_acquire,
                                std::memory_order_relaxed)) {
        return permits;
      }
    }
    return 0;
  }

  /// Adds `permits`, and wakes the waiters at the head of the line that now have enough.
  void release(std::uint64_t permits = 1) noexcept {
    word state = load(std::memory_order_relaxed);
    assert(state / one + permits <= max() && "too many permits");
    while ((state & busy) == 0) {
      // release: pairs with the acquire in try_acquire(), try_acquire_some() and
      // state_word::lock().
      if (compare_exchange_weak(state, state + permits * one, std::memory_order_release,
                                std::memory_order_relaxed)) {
        return;
      }
    }
    change([permits](word& locked_word) { locked_word += permits * one; });
  }

  /// Completes waits in their order while permits are free, each with at most `max_permits`, even
  /// if the waiter requested more. Meant for permit(), whose result has the number of permits.
  [[gnu::noinline]] void serve_waits(std::uint64_t max_permits) noexcept {
    detail::woken_waiters waiters;
    detail::locked_state state(*this);
    while (!line_.empty() && state.value / one != 0) {
      waiter& first = line_.front();
      first.permits = std::min({first.permits, max_permits, state.value / one});
      state.value -= first.permits * one;
      waiters.complete(first);
    }
    if (line_.empty()) state.value &= ~awaited;
  }

  /// Ends all waits: from now on a wait for more permits than are free ends without any, and
  /// permit() returns an empty permit. The other members work as before.
  void close() noexcept {
    change([](word& state) { state |= closed; });
  }

  /// Returns whether a coroutine or thread waits; a release() then serves the waiters.
  [[nodiscard]] bool has_waiters() const noexcept {
    // relaxed: the result is a hint that orders nothing.
    return (load(std::memory_order_relaxed) & awaited) != 0;
  }

  /// Returns the number of free permits, which may be positive while an acquire() of more waits.
  [[nodiscard]] std::uint64_t available() const noexcept {
    return load(std::memory_order_relaxed) / one;  // relaxed: the count orders nothing
  }

 private:
  using waiter = detail::semaphore_waiter;
  friend waiting_line;
  friend acquire_operation;
  friend permit_operation;
  friend detail::blocked_acquire;

  static constexpr word closed = 4;
  static constexpr word one = 8;

  bool admit(const waiter& node) noexcept { return try_acquire(node.permits); }
  template <class Permit>
  Permit grant(const waiter& node) noexcept {
    return Permit(*this, node.permits);
  }
  static bool take(word& state, waiter& next) noexcept {
    if (state / one >= next.permits) {
      state -= next.permits * one;
      return true;
    }
    if ((state & closed) == 0) return false;
    next.permits = 0;
    return true;
  }
};

inline void semaphore_permit::release() noexcept {
  if (const std::uint64_t permits = forget(); permits != 0) source_->release(permits);
}

}  // namespace gyre
