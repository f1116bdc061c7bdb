// SPDX-License-Identifier: Apache-2.0
// latch: waits until a number of events have happened, once.
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
namespace detail {

struct latch_arrival : waiter {
  explicit latch_arrival(std::uint64_t count) noexcept : arrivals(count) {}
  const std::uint64_t arrivals;
};

}  // namespace detail

/// A counter that counts down to zero, where it stays, and then wakes all waiters, in the order in
/// which they came; like std::latch. Each count_down() happens before the end of the waits.
///
/// Thread-safety: every member may be called from any thread.
/// Lifetime: must outlive its waits. A caller that finds the counter at zero, and knows that no
/// other caller will use the latch, may destroy the latch, even though the last count_down() has
/// not returned yet.
/// Errors: a wait that is asked to stop throws operation_cancelled.
/// Complexity: count_down() is one exchange, and the last one a post per waiter; wait() at zero is
/// one load; no allocation; 24 bytes.
class latch : detail::waiting_line<latch> {
 public:
  /// The awaitables of wait() and arrive_and_wait(), without a result.
  using wait_operation = detail::primitive_wait<void, latch>;
  using arrival_operation = detail::primitive_wait<void, latch, detail::latch_arrival>;

  [[nodiscard]] static constexpr std::uint64_t max() noexcept { return ~word{0} / one; }

  constexpr explicit latch(std::uint64_t expected) noexcept : waiting_line(expected * one) {
    assert(expected <= max());
  }

  /// Subtracts `arrivals`, which must not exceed the counter.
  void count_down(std::uint64_t arrivals = 1) noexcept {
    change([arrivals](word& state) {
      assert(state / one >= arrivals && "more arrived at a gyre::latch than were expected");
      state -= arrivals * one;
    });
  }
  /// Returns whether the counter is zero.
  [[nodiscard]] bool try_wait() const noexcept {
    // acquire: pairs with the release in state_word::unlock(); makes writes before count_down()
    // visible.
    return load(std::memory_order_acquire) < one;
  }
  /// Awaited, waits until the counter is zero. A stop request has an effect only if the coroutine
  /// has to wait.
  wait_operation wait() noexcept { return wait_operation(*this); }
  /// Awaited, counts down, then waits. The arrivals stay counted even if the wait is asked to stop.
  arrival_operation arrive_and_wait(std::uint64_t arrivals = 1) noexcept {
    return arrival_operation(*this, arrivals);
  }

 private:
  friend wait_operation;
  friend arrival_operation;
  friend waiting_line;

  static constexpr bool takes_all_or_none = true;
  static constexpr word one = 4;

  bool admit(detail::waiter&) const noexcept { return try_wait(); }
  bool admit(detail::latch_arrival& node) noexcept {
    count_down(node.arrivals);
    return try_wait();
  }
  static bool take(word& state, const detail::waiter&) noexcept { return state < one; }
};

}  // namespace gyre
