// SPDX-License-Identifier: Apache-2.0
// Coroutines of several loops take tokens of one rate limiter, and some are stopped meanwhile.
#include <gyre/sync/rate_limiter.hpp>

#include <gyre/exec/loop_thread.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace rate_limiter_stress_test {
namespace {

using namespace std::chrono_literals;
using gyre::rate_limiter;
using gyre::task;

constexpr std::uint64_t rate = 1'000'000;
constexpr std::uint64_t burst = 500;

task<> takes_often(rate_limiter& limit, std::atomic<std::uint64_t>& taken, unsigned seed) {
  std::minstd_rand random(seed);
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t tokens = random() % 100;
    co_await limit.acquire(tokens);
    taken += tokens;
  }
}

TEST(RateLimiterStress, LoopsShareTheTokensAndStopsTakeNone) {
  rate_limiter limit({.tokens = rate, .per = 1s, .burst = burst});
  std::array<gyre::loop_thread, 3> threads;
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::unique_ptr<gyre::inplace_stop_source>> stops;
  std::vector<std::future<void>> ended;
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < 24; ++i) {
    stops.push_back(std::make_unique<gyre::inplace_stop_source>());
    ended.push_back(gyre::spawn_future(threads.at(i % 3).loop(), takes_often(limit, taken, i + 1),
                                       stops.back()->get_token()));
  }
  // From this thread, at any stage of a wait.
  for (unsigned i = 0; i < 24; i += 3) {
    while (taken.load() < 1000 * i) std::this_thread::yield();
    stops.at(i)->request_stop();
  }
  std::size_t stopped = 0;
  for (std::future<void>& each : ended) {
    try {
      each.get();
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::operation_canceled);
      ++stopped;
    }
  }
  EXPECT_LE(stopped, 8);
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  const auto come = static_cast<std::uint64_t>(elapsed / 1us);
  EXPECT_LE(taken.load(), burst + come + 1) << "no more than have come";
}

}  // namespace
}  // namespace rate_limiter_stress_test
