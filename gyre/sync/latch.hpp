// SPDX-License-Identifier: Apache-2.0
// Waiting until a number of things have happened, once.
//
//     gyre::latch started(servers.size());
//
//     co_await started.wait();  // each server: started.count_down()
#pragma once

#include <gyre/sync/detail/primitive_wait.hpp>
#include <gyre/sync/detail/waiter.hpp>
#include <gyre/sync/detail/waiting_line.hpp>

#include <cassert>
#include <cstdint>

namespace gyre {

/// A counter that goes down to zero, where it lets everybody pass for ever.
///
/// Cost          count_down() one exchange, and a post for each waiter if it is the last; wait() at
///               zero one load; no allocation, 24 bytes
/// Fairness      wakes all, in the order of their coming
/// Cancellation  a wait that is cancelled changes nothing; operation_cancelled
/// Threads       any
///
/// As std::latch. It must outlive its waits. What happened before a count_down() happens before the
/// end of the waits.
class latch : detail::waiting_line<latch> {
 public:
  class arrival_operation;
  /// The awaitable of wait(), without a result.
  using wait_operation = detail::primitive_wait<void, latch>;

  [[nodiscard]] static constexpr std::uint64_t max() noexcept { return ~word{0} / one; }

  constexpr explicit latch(std::uint64_t expected) noexcept : waiting_line(expected * one) {
    assert(expected <= max());
  }

  /// Takes `arrived`, at most what is left, from the counter. When that reaches zero wakes all who
  /// wait; whoever then finds it at zero may destroy the latch.
  void count_down(std::uint64_t arrived = 1) noexcept;
  /// Whether the counter is zero.
  [[nodiscard]] bool try_wait() const noexcept {
    // acquire: pairs with the release in state_word::unlock().
    return load(std::memory_order_acquire) < one;
  }
  /// Awaited, waits until the counter is zero. Does not look at the stop token if it is.
  wait_operation wait() noexcept { return wait_operation(*this); }
  /// Awaited, counts down, then waits. If that is cancelled, it has counted all the same.
  inline arrival_operation arrive_and_wait(std::uint64_t arrived = 1) noexcept;

 private:
  friend wait_operation;
  friend waiting_line;

  static constexpr word one = 4;

  bool admit(detail::waiter&) const noexcept { return try_wait(); }
  static bool take(word& now, const detail::waiter&) noexcept { return now < one; }
};

extern template class detail::waiting_line<latch>;

/// The awaitable of latch::arrive_and_wait(), without a result.
class [[nodiscard]] latch::arrival_operation : public latch::wait_operation {
 public:
  arrival_operation(latch& at, std::uint64_t arrived) noexcept
      : latch::wait_operation(at), at_(&at), arrived_(arrived) {}

  bool await_ready() noexcept {
    at_->count_down(arrived_);
    return latch::wait_operation::await_ready();
  }

 private:
  latch* at_;
  std::uint64_t arrived_;
};

inline auto latch::arrive_and_wait(std::uint64_t arrived) noexcept -> arrival_operation {
  return arrival_operation(*this, arrived);
}

}  // namespace gyre
