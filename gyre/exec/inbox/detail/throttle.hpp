// SPDX-License-Identifier: Apache-2.0
// What our own inboxes do between two segments: let an overloaded consumer catch up.
#pragma once

#include <cstddef>
#include <cstdint>

#include <gyre/base/atomic.hpp>
#include <gyre/exec/inbox/inbox.hpp>

namespace gyre::inbox::detail {

/// Slows a producer down while too much waits, by giving up the rest of its time slice: the tasks
/// stay in the caches and the queue stays short. It never blocks: after `most_yields` the producer
/// goes on whatever the backlog is, so nothing can deadlock, the consumer posting to itself included.
class throttle {
 public:
  static constexpr std::size_t high_water = std::size_t{1} << 13;
  static constexpr int most_yields = 100;

  template <class Backlog>
  void slow_down(Backlog&& backlog) const noexcept {
    for (int i = 0; i < most_yields && backlog() > high_water; ++i) gyre::detail::thread_yield();
  }
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
