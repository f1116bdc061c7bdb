// SPDX-License-Identifier: Apache-2.0
// timer_wheel: the hierarchical timing wheel of the event loop's timers (Varghese & Lauck, "Hashed
// and Hierarchical Timing Wheels", 1987, scheme 7). The caller passes the time.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gyre::detail {

/// A link of one of the wheel's circular lists: a timer, or the head of a list.
struct timer_link {
  timer_link* next = nullptr;
  timer_link* prev = nullptr;
};

/// The base of a timer. Must stay alive and in place while it is linked. 24 bytes.
class timer_node : public timer_link {
 public:
  timer_node() = default;
  timer_node& operator=(timer_node&&) = delete;
  ~timer_node() { assert(!linked()); }
  /// Returns whether the timer was started and has neither fired nor been cancelled.
  bool linked() const noexcept { return next != nullptr; }
  /// Returns the deadline of the last start; the clock's epoch before the first start.
  steady_time deadline() const noexcept { return deadline_; }

 private:
  friend class timer_wheel;
  steady_time deadline_{};
};

/// A hierarchical timing wheel of any number of timers, fired in the order of their deadlines. A
/// timer is linked from start() until it fires or is cancelled.
///
/// A tick is 1.024 µs, which is finer than the kernel's precision in waking a thread. Level 0 has a
/// slot for each of 256 ticks (0.26 ms), a slot of a higher level is as wide as the whole level
/// below it, and seven levels (0.26 ms, 67 ms, 17 s, 73 min, 13 days, …) reach every deadline of 64
/// bits of nanoseconds. A timer waits in the level of the highest base-256 digit in which its tick
/// differs from the current one, and moves down when the wheel comes to its slot. Levels are wide
/// because moves dominate the cost of a timer when a million timers exceed the cache: a timeout of
/// some seconds moves two or three times, a cancelled one usually never. Fine ticks are cheap: a
/// slot of few timers, all overdue, is sorted and fired without moves, and a bitmap skips empty
/// slots.
///
/// Thread-safety: none.
/// Lifetime: does not own its timers; the destructor unlinks them.
/// Complexity: 28.3 KiB of memory; never allocates.
class timer_wheel {
 public:
  /// The length of a tick.
  static constexpr std::chrono::nanoseconds tick_length{1024};
  /// Starts the wheel's time at `now`; with the epoch, the first timers need a few more moves.
  explicit timer_wheel(steady_time now = {}) noexcept;
  timer_wheel& operator=(timer_wheel&&) = delete;

  ~timer_wheel();
  /// Makes `timer` fire at `deadline`, which may be any time point; replaces an earlier start. If
  /// `deadline` was past at the latest advance(), the timer fires in the next advance(). Returns
  /// whether the timer was linked before. O(1).
  bool start(timer_node& timer, steady_time deadline) noexcept;
  /// Returns the deadline of a timer that starts at `now`: for a delay of zero or less, a time
  /// already past, so that the timer fires in the next advance(); at most steady_time::max().
  static steady_time deadline_after(steady_time now, duration delay) noexcept {
    return delay <= std::chrono::nanoseconds{0} ? now - tick_length : later(now, delay);
  }
  /// Links `timer`, and replaces an earlier start; its delay begins with the next begin_delays().
  /// Timers with equal delays then have one deadline, and the caller need not read the clock for
  /// each timer. O(1).
  void start_after(timer_node& timer, duration delay) noexcept;
  /// Returns whether begin_delays() must be called before next_wakeup() and advance().
  bool has_delays_to_begin() const noexcept { return delayed_timers_.next != &delayed_timers_; }
  /// Sets the deadlines of the timers of start_after(), whose delays begin at `now`. O(1) for each.
  void begin_delays(steady_time now) noexcept;
  /// Unlinks `timer`, which then does not fire. Returns whether it was linked. O(1).
  bool cancel(timer_node& timer) noexcept;
  /// Sets the time to `now`, if that is later, and fires expired timers, at most `limit`: unlinks
  /// each and calls `on_expired(timer_node&)`. Returns how many have fired.
  ///
  /// No timer fires before its deadline. Each fires in the first advance whose `now` has reached
  /// the end of its deadline's tick, at most 1.023 µs late. Timers fire in the order of their
  /// deadlines, equal ones in the order of their starts. Only a timer that was started after its
  /// deadline may fire after timers with later deadlines, which had been kept waiting by `limit`.
  ///
  /// A call of `on_expired` may start and cancel any timer, destroy those that are not linked (so
  /// its own), advance the wheel again, and throw; the remaining timers then wait for the next
  /// advance. A timer that a call starts does not fire before another advance begins, which may be
  /// one within the call.
  ///
  /// O(1) for each timer, spread over at most seven moves in its life, and O(log n) to sort n
  /// timers of one tick. All timers of a slot move at once, which takes some tens of nanoseconds
  /// for each if they exceed the cache.
  template <class Expired>
  std::size_t advance(steady_time now, std::size_t limit, Expired&& on_expired);
  /// Returns the time for the next advance(); nullopt if no timer is linked. The time is never
  /// later than the end of the earliest deadline's tick, and exactly that if at most eight timers
  /// share its slot; otherwise it may be earlier, because the wheel must turn first. Not after the
  /// time of the latest advance() while a timer is overdue. O(1).
  std::optional<steady_time> next_wakeup() const noexcept {
    if (!is_next_known_) [[unlikely]] {
      next_wakeup_ = find_next_wakeup();
      is_next_known_ = true;
    }
    return next_wakeup_;
  }
  /// Returns whether the next advance() fires a timer for any `now`: a timer that is due but was
  /// kept waiting by a limit, or was started after its deadline. O(1).
  bool has_overdue_timers() const noexcept {
    return due_timers_.next != &due_timers_ || late_timers_.next != &late_timers_;
  }
  /// Returns the number of linked timers.
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  using tick = std::uint64_t;
  struct slot_span {
    std::size_t index;
    tick first;
    tick last;
  };

  static constexpr unsigned tick_bits = 10;
  static_assert(tick_length.count() == 1 << tick_bits);
  static constexpr unsigned digit_bits = 8;
  static constexpr std::size_t slots_per_level = std::size_t{1} << digit_bits;
  static constexpr std::size_t levels = 7;
  static_assert(tick_bits + levels * digit_bits >= 64);

  // Returns the number of ticks that have ended by `now`, counted from steady_time::min().
  static tick ticks_ended_by(steady_time now) noexcept {
    return nanoseconds_since_min(now) >> tick_bits;
  }
  // Returns `time` as an unsigned number that keeps the order, also for times before the clock's
  // epoch.
  static std::uint64_t nanoseconds_since_min(steady_time time) noexcept {
    return static_cast<std::uint64_t>(time.time_since_epoch().count()) ^ std::uint64_t{1} << 63;
  }
  static tick ticks_up_to(steady_time deadline) noexcept;
  static steady_time end_of(tick point) noexcept;

  timer_link& slot_for(tick point) noexcept;
  void admit(timer_node& timer, steady_time deadline) noexcept;
  slot_span first_slot() const noexcept;
  void mark_empty(std::size_t slot) noexcept;
  void move_down(timer_link& slot) noexcept;
  void admit_late() noexcept;
  bool turn() noexcept;
  timer_node& take_due() noexcept;
  unsigned level_of(tick point) const noexcept;
  tick first_of(tick point) const noexcept;
  void forget_next() noexcept { is_next_known_ = false; }
  std::optional<steady_time> find_next_wakeup() const noexcept;

  // The tick of a timer is the one at whose end the deadline has passed. No timer is in a slot
  // before current_, so the first slot that is not empty, from level 0 up, holds the earliest
  // timers.
  tick last_tick_;  // the latest time passed to advance()
  // The wheel's position, which is before last_tick_ while a limit keeps timers waiting.
  tick current_;
  timer_link due_timers_;      // the expired timers, sorted by deadline
  timer_link late_timers_;     // the timers that were started after their tick was seen
  timer_link delayed_timers_;  // the timers of start_after(), with the delay as the deadline
  std::size_t size_ = 0;
  // The cached result of next_wakeup(), which a loop calls before each sleep; valid if
  // is_next_known_.
  mutable bool is_next_known_ = false;
  mutable std::optional<steady_time> next_wakeup_;
  // No timer is due or late, or in a slot that begins before quiet_until_: an advance() to an
  // earlier time fires no timer.
  tick quiet_until_ = 0;
  std::uint32_t occupied_words_ = 0;
  std::array<std::uint64_t, levels * slots_per_level / 64> occupied_{};
  std::array<timer_link, levels * slots_per_level> slots_;
};

template <class Expired>
std::size_t timer_wheel::advance(steady_time now, std::size_t limit, Expired&& on_expired) {
  if (const tick ended_ticks = ticks_ended_by(now); ended_ticks < quiet_until_) [[likely]] {
    last_tick_ = current_ = std::max(last_tick_, ended_ticks);
    return 0;
  }
  forget_next();
  quiet_until_ = 0;
  admit_late();
  last_tick_ = std::max(last_tick_, ticks_ended_by(now));
  std::size_t fired_count = 0;
  for (; fired_count < limit && turn(); ++fired_count) on_expired(take_due());
  return fired_count;
}

}  // namespace gyre::detail
