// SPDX-License-Identifier: Apache-2.0
// A poller for tests of time limits of I/O: real descriptors, and a time that passes in small steps
// and only while the loop waits without events. However long the machine stops this process, no
// limit expires early.
//
//     gyre::loop loop({}, std::make_unique<gyre::test::idle_time_poller>());
#pragma once

#include <gyre/base/clock.hpp>
#include <tests/support/real_io_poller.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>

namespace gyre::test {

/// The poller that GYRE_IO names, with a clock of its own.
class idle_time_poller final : public real_io_poller {
 public:
  steady_time now() const noexcept override {
    return steady_time{std::chrono::nanoseconds{since_epoch_.load()}};
  }
  std::size_t wait(steady_time deadline) override {
    const steady_time present = now();
    if (deadline <= present) return real().wait(steady_time::min());
    const auto length = std::min<std::chrono::nanoseconds>(deadline - present, step);
    const std::size_t ready = real().wait(gyre::detail::later(real().now(), length));
    if (ready == 0) since_epoch_ += length.count();
    return ready;
  }

 private:
  static constexpr std::chrono::nanoseconds step = std::chrono::microseconds(100);

  std::atomic<std::chrono::nanoseconds::rep> since_epoch_{3'600'000'000'357};
};

}  // namespace gyre::test
