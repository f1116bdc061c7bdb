// SPDX-License-Identifier: Apache-2.0
// What our own inboxes do between two segments: let an overloaded consumer catch up.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gyre/base/atomic.hpp>
#include <gyre/exec/inbox/inbox.hpp>

namespace gyre::inbox::detail {

/// Slows a producer down while more than `high_water` tasks wait, by giving up the rest of its time
/// slice: the tasks stay in the caches and the queue stays short. It never blocks: after
/// `most_yields` the producer goes on whatever the backlog is, so nothing can deadlock. The consumer
/// itself, when it posts, is not slowed down.
class throttle {
 public:
  static constexpr int most_yields = 100;

  explicit throttle(std::size_t high_water) noexcept : high_water_(high_water) {}

  /// Consumer: the calling thread is the one that takes.
  void consuming() noexcept {
    // relaxed, here and below: a hint, and a thread reads its own store.
    consumer_.store(&this_thread_, std::memory_order_relaxed);
  }

  /// Producer.
  template <class Backlog>
  void slow_down(Backlog&& backlog) const noexcept {
    if (consumer_.load(std::memory_order_relaxed) == &this_thread_) return;
    for (int i = 0; i < most_yields && backlog() > high_water_; ++i) gyre::detail::thread_yield();
  }

 private:
  static inline constinit thread_local char this_thread_ = 0;  // its address tells threads apart

  std::size_t high_water_;
  gyre::detail::atomic<const char*> consumer_{nullptr};
};

/// Publishes how many tasks the consumer has taken when it goes out of scope, also by an exception.
class publish_consumed {
 public:
  publish_consumed(gyre::detail::atomic<std::uint64_t>& total, const batch& some) noexcept
      : total_(total), batch_(some), before_(some.ran()) {}
  publish_consumed(const publish_consumed&) = delete;
  publish_consumed& operator=(const publish_consumed&) = delete;
  ~publish_consumed() {
    // relaxed: a statistic; nobody reads a task through it.
    total_.store(total_.load(std::memory_order_relaxed) + (batch_.ran() - before_),
                 std::memory_order_relaxed);
  }

 private:
  gyre::detail::atomic<std::uint64_t>& total_;
  const batch& batch_;
  std::size_t before_;
};

}  // namespace gyre::inbox::detail
