// SPDX-License-Identifier: Apache-2.0
// What our own inboxes do between two segments: let an overloaded consumer catch up.
#pragma once

#include <cstddef>

#include <gyre/base/atomic.hpp>

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
  // Its address tells threads apart. One for the library and its users, also if those hide their symbols.
  [[gnu::visibility("default")]] static inline constinit thread_local char this_thread_ = 0;

  std::size_t high_water_;
  gyre::detail::atomic<const char*> consumer_{nullptr};
};

}  // namespace gyre::inbox::detail
