// SPDX-License-Identifier: Apache-2.0
// semaphore: a counter of permits that coroutines wait for.
//
//     gyre::semaphore connections(100);
//
//     auto permit = co_await connections.permit();
#pragma once

#include <gyre/base/intrusive_list.hpp>
#include <gyre/sync/detail/plain_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <cassert>
#include <cstdint>
#include <expected>
#include <system_error>
#include <utility>

namespace gyre {

class semaphore;

namespace detail {

struct semaphore_waiter : waiter {
  explicit semaphore_waiter(std::uint64_t permits) noexcept : wanted(permits) {}
  const std::uint64_t wanted;
};

}  // namespace detail

/// Permits of a semaphore, released when this object is destroyed. The semaphore must outlive it.
class [[nodiscard]] semaphore_permit {
 public:
  /// Holds no permits.
  constexpr semaphore_permit() noexcept = default;
  /// Adopts `count` permits of `from` that the caller has acquired.
  semaphore_permit(semaphore& from, std::uint64_t count) noexcept : from_(&from), count_(count) {}
  semaphore_permit(semaphore_permit&& other) noexcept
      : from_(other.from_), count_(other.forget()) {}
  semaphore_permit& operator=(semaphore_permit&& other) noexcept {
    semaphore_permit taken(std::move(other));
    std::swap(from_, taken.from_);
    std::swap(count_, taken.count_);
    return *this;
  }
  ~semaphore_permit() { release(); }

  /// The number of permits held.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// Releases the permits now.
  inline void release() noexcept;
  /// Leaves the permits to the caller to release, and returns their number.
  std::uint64_t forget() noexcept { return std::exchange(count_, 0); }

 private:
  semaphore* from_ = nullptr;
  std::uint64_t count_ = 0;
};

/// A counter that coroutines take permits from, and wait for while it is too low; first come, first
/// served, also for many permits at once. Counts as std::counting_semaphore.
///
/// Thread-safety: every member may be called from any thread; a permit may be released by another
/// thread or coroutine than acquired it.
/// Lifetime: must outlive its waits and permits.
/// Errors: a wait that is asked to stop throws operation_cancelled and takes nothing.
/// Complexity: acquire and release are one compare-exchange each while nothing waits; no
/// allocation; 24 bytes.
class semaphore {
 public:
  class permit_operation;
  /// The awaitable of acquire(), without a result.
  using acquire_operation = detail::plain_wait<semaphore, detail::semaphore_waiter>;

  /// The most permits there can be.
  [[nodiscard]] static constexpr std::uint64_t max() noexcept { return ~word{0} / one; }

  /// Has `permits` at first.
  constexpr explicit semaphore(std::uint64_t permits) noexcept : state_(permits * one) {
    assert(permits <= max());
  }
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;
  ~semaphore() {
    // relaxed: a semaphore that is used while it is destroyed is lost anyway.
    assert((state_.load(std::memory_order_relaxed) & busy) == 0 &&
           "a gyre::semaphore was destroyed while a coroutine waited for it");
  }

  /// Awaited, takes `permits` after the present waiters. A stop request counts only if it has to
  /// wait.
  acquire_operation acquire(std::uint64_t permits = 1) noexcept {
    return acquire_operation(*this, permits);
  }
  /// As acquire(), but returns a semaphore_permit, which releases them.
  inline permit_operation permit(std::uint64_t permits = 1) noexcept;

  /// Takes `permits` if there are enough and nothing waits. May fail spuriously, as the standard's
  /// may, while another coroutine begins or ends to wait.
  [[nodiscard]] bool try_acquire(std::uint64_t permits = 1) noexcept {
    word now = state_.load(std::memory_order_relaxed);
    while ((now & busy) == 0 && now / one >= permits) {
      // acquire: pairs with the release in release() and state_word::unlock().
      if (state_.compare_exchange_weak(now, now - permits * one, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  /// Adds `permits`, and wakes the waiters at the head of the line that now have enough.
  void release(std::uint64_t permits = 1) noexcept {
    word now = state_.load(std::memory_order_relaxed);
    assert(now / one + permits <= max() && "too many permits");
    while ((now & busy) == 0) {
      // release: pairs with the acquire of later acquisitions.
      if (state_.compare_exchange_weak(now, now + permits * one, std::memory_order_release,
                                       std::memory_order_relaxed)) {
        return;
      }
    }
    release_to_waiters(permits);
  }

  /// The number of permits now, also of those that are waited for.
  [[nodiscard]] std::uint64_t available() const noexcept {
    return state_.load(std::memory_order_relaxed) / one;  // relaxed: a number, nothing else
  }

 private:
  using waiter = detail::semaphore_waiter;
  using line = detail::waiting_line<semaphore, waiter>;
  using word = line::word;
  friend line;
  friend acquire_operation;
  friend detail::wait_operation<semaphore, waiter>;

  static constexpr word busy = line::busy;
  static constexpr word one = 4;

  bool admit(const waiter& arriving) noexcept { return try_acquire(arriving.wanted); }
  bool enlist(waiter& arriving) noexcept;
  bool withdraw(waiter& leaving) noexcept;
  void release_to_waiters(std::uint64_t permits) noexcept;
  static bool take(word& now, const waiter& next) noexcept {
    if (now / one < next.wanted) return false;
    now -= next.wanted * one;
    return true;
  }

  line state_;
};

/// The awaitable of semaphore::permit(), which returns a semaphore_permit.
class [[nodiscard]] semaphore::permit_operation {
 public:
  permit_operation(semaphore& from, std::uint64_t permits) noexcept
      : from_(&from), permits_(permits), acquired_(from, permits) {}

  static constexpr bool executor_affine = true;
  bool await_ready() noexcept { return acquired_.await_ready(); }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> awaiting) noexcept {
    return acquired_.await_suspend(awaiting);
  }
  semaphore_permit await_resume() {
    acquired_.await_resume();
    return semaphore_permit(*from_, permits_);
  }
  /// As await_resume(), but an error is a value.
  std::expected<semaphore_permit, std::error_code> result() {
    if (const auto done = acquired_.result(); !done) return std::unexpected(done.error());
    return semaphore_permit(*from_, permits_);
  }

 private:
  semaphore* from_;
  std::uint64_t permits_;
  acquire_operation acquired_;
};

inline auto semaphore::permit(std::uint64_t permits) noexcept -> permit_operation {
  return permit_operation(*this, permits);
}

inline void semaphore_permit::release() noexcept {
  if (const std::uint64_t held = forget(); held != 0) from_->release(held);
}

}  // namespace gyre
