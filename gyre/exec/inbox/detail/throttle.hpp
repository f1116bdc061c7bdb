// SPDX-License-Identifier: Apache-2.0
// throttle: back pressure of gyre's own inboxes, which lets an overloaded consumer catch up.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/clock.hpp>
#include <gyre/base/detail/futex.hpp>
#include <gyre/base/fence.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gyre::inbox::detail {

/// Puts a producer to sleep while more than `high_water` tasks wait, until half as many do, so that
/// the tasks stay in the caches and the queue stays short. It sleeps and does not yield: beside
/// other busy threads, sched_yield(2) gives them the processor rather than the consumer.
///
/// It is no lock: a producer sleeps for at most `max_sleep` and then continues whatever the backlog
/// is, and no other sleeps until the consumer has begun another batch. So it cannot deadlock, even
/// if the consumer waits for the producer. A producer does not sleep before the consumer's first
/// batch, and the consumer itself not at all.
class throttle {
 public:
  static constexpr std::chrono::milliseconds max_sleep{1};

  explicit throttle(std::size_t high_water) noexcept : high_water_(high_water) {}
  /// Consumer, before each batch: registers the calling thread as the consumer.
  void register_consumer() noexcept {
    // relaxed, here and below: a hint, and a thread reads its own store.
    consumer_.store(&this_thread_, std::memory_order_relaxed);
  }
  /// Consumer, after each batch and when it has found nothing: wakes the producers that sleep if it
  /// has caught up. Without one that sleeps, a load.
  template <class Backlog>
  void wake_producers(Backlog&& backlog) noexcept {
    // relaxed: a consumer that is about to sleep asks once more after a full fence, which pairs
    // with the one below: it sees the bit, or the producer sees what it has run.
    const std::uint32_t seen = state_.load(std::memory_order_relaxed);
    if ((seen & sleeping) == 0 || backlog() > high_water_ / 2) [[likely]]
      return;
    // relaxed: orders nothing. A producer changes only the bit, which is set.
    state_.store(seen + 1, std::memory_order_relaxed);
    gyre::detail::futex_wake_all(&state_);
  }
  /// Producer.
  template <class Backlog>
  void slow_down(Backlog&& backlog) noexcept {
    const char* const consumer = consumer_.load(std::memory_order_relaxed);
    if (consumer == nullptr || consumer == &this_thread_ || backlog() <= high_water_) return;
    // relaxed: ordered by the fence.
    const std::uint32_t asleep = state_.fetch_or(sleeping, std::memory_order_relaxed) | sleeping;
    gyre::detail::full_fence();  // see wake_producers()
    if (backlog() <= high_water_) return;
    gyre::detail::futex_wait_until(state_, asleep, gyre::detail::monotonic_now() + max_sleep);
    if (state_.load(std::memory_order_relaxed) == asleep) {
      consumer_.store(nullptr, std::memory_order_relaxed);  // until its next batch
    }
  }

 private:
  static constexpr std::uint32_t sleeping = 1;  // the bits above count the wake-ups

  // Its address tells threads apart. One for the library and its users, also if those hide their
  // symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local char this_thread_ = 0;

  std::size_t high_water_;
  gyre::detail::atomic<const char*> consumer_{nullptr};
  gyre::detail::atomic<std::uint32_t> state_{0};
};

}  // namespace gyre::inbox::detail
