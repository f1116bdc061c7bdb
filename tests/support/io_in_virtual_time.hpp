// SPDX-License-Identifier: Apache-2.0
// A poller for tests of time limits: real descriptors, and a time that passes only when the test
// advances it.
//
//     gyre::test::io_in_virtual_time virtual_time;
//     gyre::net::tcp_server server(virtual_time.loop);
//     virtual_time.advance(5s);     // timers that became due fire in the next turn
//     virtual_time.turn_until([&] { return closed; });
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/exec/loop.hpp>
#include <tests/support/real_io_poller.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>

namespace gyre::test {

/// A poller whose clock the test sets.
class stopped_time_poller final : public real_io_poller {
 public:
  void advance(std::chrono::nanoseconds elapsed) noexcept { since_epoch_ += elapsed.count(); }

  steady_time now() const noexcept override {
    return steady_time{std::chrono::nanoseconds{since_epoch_.load()}};
  }
  std::size_t wait(steady_time deadline) override {
    const bool sleeps = deadline > now();
    const auto a_moment = std::chrono::milliseconds{1};
    return real().wait(sleeps ? real().now() + a_moment : steady_time::min());
  }

 private:
  std::atomic<std::int64_t> since_epoch_{std::chrono::nanoseconds{std::chrono::hours{1}}.count()};
};

/// A loop with real I/O and virtual time.
class io_in_virtual_time {
 public:
  explicit io_in_virtual_time(loop_options options = {})
      : io_in_virtual_time(std::move(options), std::make_unique<stopped_time_poller>()) {}

  void advance(std::chrono::nanoseconds elapsed) noexcept { time_.advance(elapsed); }
  /// Turns the loop until `done`, without advancing the time; throws after minutes of real time.
  template <class Done>
  void turn_until(Done done) {
    const steady_time give_up = gyre::detail::monotonic_now() + std::chrono::minutes{4};
    while (!done()) {
      if (gyre::detail::monotonic_now() > give_up) throw std::runtime_error("waited in vain");
      loop.poll();
    }
  }
  /// Turns the loop until it is idle.
  void settle() {
    while (loop.poll()) {
    }
  }

 private:
  io_in_virtual_time(loop_options options, std::unique_ptr<stopped_time_poller> poller)
      : time_(*poller), loop(std::move(options), std::move(poller)) {}

  stopped_time_poller& time_;

 public:
  gyre::loop loop;
};

}  // namespace gyre::test
