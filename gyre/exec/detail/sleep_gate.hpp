// SPDX-License-Identifier: Apache-2.0
// sleep_gate: an eventcount with one waiter. A loop falls asleep without missing a task, and a
// producer makes a system call only if the loop sleeps.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/fence.hpp>

#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// A producer makes its task visible, then calls claim_remote_wake_up(). The loop calls
/// fall_asleep(), checks for tasks once more, waits if there are none, and calls wake_up().
///
/// Each side writes one location and then reads the other's (Dekker), so neither side's store and
/// load may be reordered. At first each side uses a full fence. A loop that runs many tasks of
/// other threads between two sleeps is busy: producers use the light fence, and the loop's next
/// sleep uses the heavy one, after which no producer sees the loop as busy any more. The loop's own
/// tasks need no fence. claim_remote_wake_up() returns true to only one of several producers.
///
/// | state | fall_asleep() | claim_remote_wake_up() | note_many_tasks() | wake_up() |
/// |---|---|---|---|---|
/// | awake | asleep, full fence | false, full fence | busy, if others have posted | - |
/// | busy | asleep, heavy fence | false, light fence | busy | - |
/// | asleep | - | awake, true once | - | busy if requested, else awake |
/// | always | always | true | always | always |
class sleep_gate {
 public:
  /// A loop that runs at least this many tasks between two sleeps counts as busy.
  static constexpr std::size_t many_tasks = full_fences_per_heavy_one;

  /// With `always`, every claim_remote_wake_up() returns true: one wake-up per task, as in the
  /// published report.
  explicit sleep_gate(bool is_constant) noexcept
      : state_(is_constant ? state::always : state::awake) {}

  /// Returns whether the loop is busy, so that claim_remote_wake_up() would return false. Any
  /// thread.
  bool is_busy() noexcept {
    asymmetric_light_fence();
    // relaxed: the fences order all accesses to state_.
    return state_.load(std::memory_order_relaxed) == state::busy;
  }
  /// Returns whether the caller, which has posted a task, must wake the loop. Called by threads
  /// other than the loop's.
  bool claim_remote_wake_up() noexcept {
    if (is_busy()) return false;
    full_fence();
    // The load avoids a needless store to a cache line that several cores share.
    if (!others_post_.load(std::memory_order_relaxed)) {
      others_post_.store(true, std::memory_order_relaxed);
    }
    return claim_wake_up();
  }
  /// Claims the wake-up of a sleeping loop: returns true to one caller in each sleep, who must wake
  /// the loop. Has no fence, so only the loop's thread calls it directly; there it returns true
  /// only in a signal handler that interrupts fall_asleep().
  bool claim_wake_up() noexcept {
    const state current_state = state_.load(std::memory_order_relaxed);
    return current_state != state::awake && current_state != state::busy && exchange_asleep();
  }

  /// Called by the loop, awake, when it has run many tasks since it slept last.
  void note_many_tasks() noexcept {
    if (others_have_posted() && state_.load(std::memory_order_relaxed) == state::awake) {
      state_.store(state::busy, std::memory_order_relaxed);
    }
  }
  /// Called by the loop before it sleeps. Returns whether the loop was busy.
  bool fall_asleep() noexcept {
    // relaxed: only the loop stores `busy`, so its own load of that state cannot be stale.
    const state old_state = state_.load(std::memory_order_relaxed);
    if (old_state == state::always) return false;
    state_.store(state::asleep, std::memory_order_relaxed);
    old_state == state::busy ? asymmetric_heavy_fence() : full_fence();
    return old_state == state::busy;
  }
  /// Called by the loop after its sleep. With `busy`, other threads are expected to post as many
  /// tasks as before.
  void wake_up(bool busy = false) noexcept {
    if (state_.load(std::memory_order_relaxed) == state::always) return;
    // relaxed: a producer that still reads `asleep` wakes the loop needlessly, which costs one
    // turn.
    state_.store(busy ? state::busy : state::awake, std::memory_order_relaxed);
  }

 private:
  enum class state : std::uint32_t { awake, busy, asleep, always };

  // Returns whether other threads have posted since the last call.
  bool others_have_posted() noexcept {
    if (!others_post_.load(std::memory_order_relaxed)) [[likely]]
      return false;
    others_post_.store(false, std::memory_order_relaxed);
    return true;
  }
  bool exchange_asleep() noexcept {
    state expected = state::asleep;
    // relaxed: the exchange only has to succeed for one producer; the wake-up orders the rest.
    return state_.compare_exchange_strong(expected, state::awake, std::memory_order_relaxed,
                                          std::memory_order_relaxed) ||
           expected == state::always;
  }

  gyre::detail::atomic<state> state_;
  gyre::detail::atomic<bool> others_post_{false};  // producers set it while the loop is not busy
};

}  // namespace gyre::detail
