// SPDX-License-Identifier: Apache-2.0
// throttle: back pressure of gyre's own inboxes, which lets an overloaded consumer catch up.
#pragma once

#include <gyre/base/atomic.hpp>

#include <cstddef>

namespace gyre::inbox::detail {

/// Slows a producer down by yielding while more than `high_water` tasks wait, so that the tasks
/// stay in the caches and the queue stays short. It never blocks: after `max_yields` the producer
/// goes on whatever the backlog is, so it cannot deadlock. The consumer itself is not slowed down
/// when it posts.
class throttle {
 public:
  static constexpr int max_yields = 100;

  explicit throttle(std::size_t high_water) noexcept : high_water_(high_water) {}
  /// Consumer: registers the calling thread as the consumer.
  void register_consumer() noexcept {
    // relaxed, here and below: a hint, and a thread reads its own store.
    consumer_.store(&this_thread_, std::memory_order_relaxed);
  }
  /// Producer.
  template <class Backlog>
  void slow_down(Backlog&& backlog) const noexcept {
    if (consumer_.load(std::memory_order_relaxed) == &this_thread_) return;
    for (int i = 0; i < max_yields && backlog() > high_water_; ++i) gyre::detail::thread_yield();
  }

 private:
  // Its address tells threads apart. One for the library and its users, also if those hide their
  // symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local char this_thread_ = 0;

  std::size_t high_water_;
  gyre::detail::atomic<const char*> consumer_{nullptr};
};

}  // namespace gyre::inbox::detail
