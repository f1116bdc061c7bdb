// SPDX-License-Identifier: Apache-2.0
// sleep_gate: an eventcount with one waiter. A loop falls asleep without missing a task, and a
// producer makes a system call only if the loop sleeps.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/fence.hpp>

#include <cstdint>

namespace gyre::detail {

/// Producer: makes its task visible, then asks must_wake(). Loop: fall_asleep(), then looks for
/// tasks once more, then waits (or not), then wake_up().
///
/// Each side writes one location and then reads the other's (Dekker), so neither side's store and
/// load may be exchanged. The producer has the light fence, as it passes with every task; the loop,
/// which enters the kernel anyway, the heavy one. must_wake() is true for one of several producers.
///
/// | state | fall_asleep() | must_wake() | wake_up() |
/// |---|---|---|---|
/// | awake | asleep | false | awake |
/// | asleep | - | awake, true once | awake |
/// | always | always | true | always |
class sleep_gate {
 public:
  /// With `always`, every must_wake() is true: one wake-up per task, as in the published report.
  explicit sleep_gate(bool always) noexcept : state_(always ? state::always : state::awake) {}

  bool must_wake() noexcept {
    asymmetric_light_fence();
    // relaxed: ordered by the fences.
    if (state_.load(std::memory_order_relaxed) == state::awake) [[likely]]
      return false;
    return must_wake_sleeper();
  }

  void fall_asleep() noexcept {
    if (state_.load(std::memory_order_relaxed) == state::always) return;
    state_.store(state::asleep, std::memory_order_relaxed);
    asymmetric_heavy_fence();
  }

  void wake_up() noexcept {
    if (state_.load(std::memory_order_relaxed) == state::always) return;
    // relaxed: a producer that still reads `asleep` wakes once too often, which costs a turn.
    state_.store(state::awake, std::memory_order_relaxed);
  }

 private:
  enum class state : std::uint32_t { awake, asleep, always };

  bool must_wake_sleeper() noexcept {
    state expected = state::asleep;
    // relaxed: only one producer may succeed; the wake-up itself orders the rest.
    return state_.compare_exchange_strong(expected, state::awake, std::memory_order_relaxed,
                                          std::memory_order_relaxed) ||
           expected == state::always;
  }

  gyre::detail::atomic<state> state_;
};

}  // namespace gyre::detail
