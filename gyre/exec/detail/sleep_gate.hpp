// SPDX-License-Identifier: Apache-2.0
// sleep_gate: an eventcount with one waiter. A loop falls asleep without missing a task, and a
// producer makes a system call only if the loop sleeps.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/fence.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// Producer: makes its task visible, then asks must_wake(). Loop: fall_asleep(), then looks for
/// tasks once more, then waits (or not), then wake_up().
///
/// Each side writes one location and then reads the other's (Dekker), so neither side's store and
/// load may be exchanged. At first each side has a full fence. A loop that runs many tasks of other
/// threads between two sleeps is busy: producers have the light fence, and the loop's next sleep
/// the heavy one, after which no producer takes the loop for busy any more. The loop's own tasks
/// need no fence. must_wake() is true for one of several producers.
///
/// | state | fall_asleep() | must_wake() | note_many_tasks() | wake_up() |
/// |---|---|---|---|---|
/// | awake | asleep, full fence | false, full fence | busy, if others have posted | - |
/// | busy | asleep, heavy fence | false, light fence | busy | - |
/// | asleep | - | awake, true once | - | busy if it says so, else awake |
/// | always | always | true | always | always |
class sleep_gate {
 public:
  /// A loop that runs at least this many tasks between two sleeps counts as busy.
  static constexpr std::size_t many_tasks = full_fences_per_heavy_one;

  /// With `always`, every must_wake() is true: one wake-up per task, as in the published report.
  explicit sleep_gate(bool always) noexcept : state_(always ? state::always : state::awake) {}

  /// Whether the loop is busy, so that must_wake() would be false.
  bool is_busy() noexcept {
    asymmetric_light_fence();
    // relaxed, as below: ordered by the fences.
    return state_.load(std::memory_order_relaxed) == state::busy;
  }
  /// For threads other than the loop's.
  bool must_wake() noexcept {
    if (is_busy()) return false;
    full_fence();
    // The load comes first because several cores share the cache line.
    if (!others_post_.load(std::memory_order_relaxed)) {
      others_post_.store(true, std::memory_order_relaxed);
    }
    return claim_wake_up();
  }
  /// Claims the wake-up of a loop that sleeps: true for one caller in each sleep, who must wake the
  /// loop. Without a fence, so other threads call must_wake(). On the loop's own thread it is true
  /// only in a signal handler that interrupts fall_asleep().
  bool claim_wake_up() noexcept {
    const state seen = state_.load(std::memory_order_relaxed);
    return seen != state::awake && seen != state::busy && exchange_asleep();
  }

  /// Loop, awake: it has run many tasks since it slept last.
  void note_many_tasks() noexcept {
    if (others_have_posted() && state_.load(std::memory_order_relaxed) == state::awake) {
      state_.store(state::busy, std::memory_order_relaxed);
    }
  }
  /// Whether the loop was busy.
  bool fall_asleep() noexcept {
    // Only the loop makes itself busy, so it cannot read a stale value here.
    const state before = state_.load(std::memory_order_relaxed);
    if (before == state::always) return false;
    state_.store(state::asleep, std::memory_order_relaxed);
    before == state::busy ? asymmetric_heavy_fence() : full_fence();
    return before == state::busy;
  }
  /// With `busy`, other threads are expected to post as many as before.
  void wake_up(bool busy = false) noexcept {
    if (state_.load(std::memory_order_relaxed) == state::always) return;
    // relaxed: a producer that still reads `asleep` wakes once too often, which costs a turn.
    state_.store(busy ? state::busy : state::awake, std::memory_order_relaxed);
  }

 private:
  enum class state : std::uint32_t { awake, busy, asleep, always };

  // Whether other threads have posted since the last call.
  bool others_have_posted() noexcept {
    if (!others_post_.load(std::memory_order_relaxed)) [[likely]]
      return false;
    others_post_.store(false, std::memory_order_relaxed);
    return true;
  }
  bool exchange_asleep() noexcept {
    state expected = state::asleep;
    // relaxed: only one producer may succeed; the wake-up itself orders the rest.
    return state_.compare_exchange_strong(expected, state::awake, std::memory_order_relaxed,
                                          std::memory_order_relaxed) ||
           expected == state::always;
  }

  gyre::detail::atomic<state> state_;
  gyre::detail::atomic<bool> others_post_{false};  // noted while the loop is not busy
};

}  // namespace gyre::detail
