// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/ticks.hpp>

#include <limits>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gyre::detail {

constinit std::atomic<tick_source> chosen_tick_source{tick_source::unknown};

namespace {

// Whether the processor's counter runs at one rate in all states of the processor.
bool has_steady_counter() noexcept {
#if defined(__x86_64__)
  constexpr unsigned advanced_power_management = 0x8000'0007;
  constexpr unsigned invariant_counter = 1U << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(advanced_power_management, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & invariant_counter) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

tick_anchor read_first_anchor() noexcept {
  constexpr std::chrono::microseconds measured_time{50};
  const tick_anchor first = tick_anchor::read();
  while (monotonic_now() < first.time + measured_time) {
  }
  return first;
}

}  // namespace

tick_count read_first_ticks() noexcept {
  chosen_tick_source.store(has_steady_counter() ? tick_source::counter : tick_source::clock,
                           std::memory_order_relaxed);
  return read_ticks();
}

tick_anchor tick_anchor::read() noexcept {
  constexpr int attempts = 8;
  tick_anchor result;
  tick_count min_length = std::numeric_limits<tick_count>::max();
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const tick_count begin = read_ticks();
    const steady_time time = monotonic_now();
    const tick_count length = read_ticks() - begin;
    if (length >= min_length) continue;
    min_length = length;
    result = {.ticks = begin + length / 2, .time = time};
  }
  return result;
}

tick_rate::tick_rate(tick_anchor first_anchor, tick_anchor last_anchor) noexcept
    : anchor_(last_anchor) {
  if (last_anchor.ticks <= first_anchor.ticks || last_anchor.time <= first_anchor.time) return;
  nanoseconds_per_tick_ = static_cast<double>((last_anchor.time - first_anchor.time).count()) /
                          static_cast<double>(last_anchor.ticks - first_anchor.ticks);
}

steady_time tick_rate::to_time(tick_count ticks) const noexcept {
  // The difference is signed, because a tick may be later than the anchor.
  const auto difference = static_cast<std::int64_t>(ticks - anchor_.ticks);
  const double length = static_cast<double>(difference) * nanoseconds_per_tick_;
  return anchor_.time + std::chrono::nanoseconds(static_cast<std::int64_t>(length));
}

std::chrono::nanoseconds tick_rate::to_duration(tick_count ticks) const noexcept {
  const double length = static_cast<double>(ticks) * nanoseconds_per_tick_;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(length));
}

tick_count tick_rate::to_ticks(std::chrono::nanoseconds length) const noexcept {
  return static_cast<tick_count>(static_cast<double>(length.count()) / nanoseconds_per_tick_);
}

tick_rate measured_tick_rate() noexcept {
  static const tick_anchor first = read_first_anchor();
  return {first, tick_anchor::read()};
}

}  // namespace gyre::detail
