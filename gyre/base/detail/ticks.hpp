// SPDX-License-Identifier: Apache-2.0
// read_ticks: the cheapest monotonic clock of the machine, in a unit of its own; tick_rate converts
// ticks to steady_time.
#pragma once

#include <gyre/base/clock.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace gyre::detail {

/// A point in time, or a length of time, in ticks.
using tick_count = std::uint64_t;

/// The clock behind read_ticks().
enum class tick_source : std::uint8_t {
  unknown,  ///< read_ticks() was not called yet
  counter,  ///< the processor's counter, if it runs at one rate at all times
  clock,    ///< CLOCK_MONOTONIC, whose ticks are nanoseconds
};

/// A std::atomic, not gyre's: the model checker need not explore it, as it orders nothing.
extern constinit std::atomic<tick_source> chosen_tick_source;

/// Chooses the clock, and reads it.
[[gnu::cold, gnu::noinline]] tick_count read_first_ticks() noexcept;

/// Returns the present time in ticks. The counters of two processors may differ by some
/// nanoseconds.
///
/// Thread-safety: any thread.
/// Complexity: about 8 ns with the processor's counter.
inline tick_count read_ticks() noexcept {
  // relaxed: every thread chooses the same clock.
  const tick_source source = chosen_tick_source.load(std::memory_order_relaxed);
  if (source == tick_source::unknown) [[unlikely]]
    return read_first_ticks();
#if defined(__x86_64__)
  if (source == tick_source::counter) [[likely]]
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  if (source == tick_source::counter) [[likely]] {
    tick_count ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
  }
#endif
  return static_cast<tick_count>(monotonic_now().time_since_epoch().count());
}

/// One moment on both clocks.
struct tick_anchor {
  tick_count ticks = 0;
  steady_time time{};

  /// Reads both clocks. Repeats that if the thread is interrupted in between.
  static tick_anchor read() noexcept;
};

/// The relation of ticks to time, known from two moments.
///
/// Thread-safety: none.
class tick_rate {
 public:
  /// The rate between the two moments; one tick per nanosecond if no time has passed.
  tick_rate(tick_anchor first_anchor, tick_anchor last_anchor) noexcept;

  [[nodiscard]] steady_time to_time(tick_count ticks) const noexcept;
  [[nodiscard]] std::chrono::nanoseconds to_duration(tick_count ticks) const noexcept;
  /// Returns the number of ticks in `length`, which must not be negative.
  [[nodiscard]] tick_count to_ticks(std::chrono::nanoseconds length) const noexcept;

 private:
  tick_anchor anchor_;
  double nanoseconds_per_tick_ = 1;
};

/// Returns the rate since the first call, which measures it for 50 µs. Any thread.
tick_rate measured_tick_rate() noexcept;

}  // namespace gyre::detail
