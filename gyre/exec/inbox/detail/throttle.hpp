// SPDX-License-Identifier: Apache-2.0
// throttle: slows down the producers of gyre's own inboxes (back-pressure), so that an overloaded
// consumer can catch up.
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
/// the tasks stay in the caches and the queue stays short. The producer sleeps instead of yielding,
/// because sched_yield(2) would give the processor to other busy threads rather than to the
/// consumer.
///
/// A throttle is not a lock: a producer sleeps for at most `max_sleep` and then continues whatever
/// the backlog is, and no other producer sleeps until the consumer has begun another batch. So it
/// cannot deadlock, even if the consumer waits for the producer. A producer does not sleep before
/// the consumer's first batch, and the consumer itself never does.
class throttle {
 public:
  static constexpr std::chrono::milliseconds max_sleep{1};

  explicit throttle(std::size_t high_water) noexcept : high_water_(high_water) {}
  /// Consumer, before each batch: registers the calling thread as the consumer.
  void register_consumer() noexcept {
    // relaxed, like all accesses to consumer_: a hint, and a thread reads its own store.
    consumer_.store(&this_thread_, std::memory_order_relaxed);
  }
  /// Called by the consumer after each batch, and when it has found no task: wakes the sleeping
  /// producers if at most half of high_water tasks wait. Complexity: a load if no producer sleeps.
  template <class Backlog>
  void wake_producers(Backlog&& backlog) noexcept {
    // relaxed: a consumer that is about to sleep checks once more after a full fence, which pairs
    // with the fence in slow_down(): the consumer sees `sleep_bit`, or the producer sees the
    // tasks that have run.
    const std::uint32_t old_state = state_.load(std::memory_order_relaxed);
    if ((old_state & sleep_bit) == 0 || backlog() > high_water_ / 2) [[likely]]
      return;
    // relaxed: orders nothing. A plain store suffices because producers only set
    // `sleep_bit`, which is set.
    state_.store(old_state + 1, std::memory_order_relaxed);
    gyre::detail::futex_wake_all(&state_);
  }
  /// Producer, before it takes another segment: sleeps while more than high_water tasks wait.
  template <class Backlog>
  void slow_down(Backlog&& backlog) noexcept {
    const char* const consumer = consumer_.load(std::memory_order_relaxed);
    if (consumer == nullptr || consumer == &this_thread_ || backlog() <= high_water_) return;
    // relaxed: the full fence below orders this store before the second backlog().
    const std::uint32_t asleep = state_.fetch_or(sleep_bit, std::memory_order_relaxed) | sleep_bit;
    gyre::detail::full_fence();  // pairs with the fence that the consumer executes before sleeping
    if (backlog() <= high_water_) return;
    gyre::detail::futex_wait_until(state_, asleep, gyre::detail::monotonic_now() + max_sleep);
    if (state_.load(std::memory_order_relaxed) == asleep) {
      // No producer sleeps until the consumer registers again, for its next batch.
      consumer_.store(nullptr, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr std::uint32_t sleep_bit = 1;  // the other bits count the wake-ups

  // The address of this variable identifies the thread. It is visible, so that the library and its
  // users share one variable even if the users hide their symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local char this_thread_ = 0;

  std::size_t high_water_;
  gyre::detail::atomic<const char*> consumer_{nullptr};
  gyre::detail::atomic<std::uint32_t> state_{0};
};

}  // namespace gyre::inbox::detail
