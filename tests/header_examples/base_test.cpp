// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of base's headers.
#include <gyre/gyre.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

namespace base_test {
namespace {

// gyre/base/available_parallelism.hpp
TEST(BaseExamples, AvailableParallelismIsANumberOfLoops) {
  gyre::loop_pool loops(gyre::available_parallelism());
  EXPECT_EQ(loops.size(), gyre::available_parallelism());
}

// gyre/base/circuit_breaker.hpp
TEST(BaseExamples, CircuitBreakerRefusesCalls) {
  gyre::loop loop;
  const int mail = 1;
  int sent = 0;
  const auto send = [&](int) { return ++sent < 0; };
  gyre::circuit_breaker breaker({.failure_rate = 0.5, .min_calls = 20});
  if (auto call = breaker.begin(loop.now())) {
    const bool is_sent = send(mail);
    is_sent ? call->succeed(loop.now()) : call->fail(loop.now());
  }
  EXPECT_EQ(sent, 1);
}

// gyre/base/duration.hpp
TEST(BaseExamples, DurationSaturates) {
  const gyre::duration longest = std::chrono::hours::max();  // 292 years, not a negative length
  EXPECT_EQ(longest, std::chrono::nanoseconds::max());
}

// gyre/base/exponential_backoff.hpp
TEST(BaseExamples, ExponentialBackoffLimitsItsDelays) {
  using namespace std::chrono_literals;
  constexpr std::uint64_t seed = 1;
  std::vector<std::chrono::nanoseconds> waits;
  const auto wait = [&](std::chrono::nanoseconds delay) { waits.push_back(delay); };
  const auto try_again = [&] { return waits.size() == 10; };
  gyre::exponential_backoff backoff{.initial = 100ms, .longest = 10s};
  std::mt19937_64 random(seed);
  for (std::size_t retry = 1; !try_again(); ++retry) {
    wait(backoff.jittered_delay(retry, random));
  }
  EXPECT_LE(waits.front(), 100ms);
  EXPECT_LE(waits.back(), 10s);
}

// gyre/base/histogram.hpp
TEST(BaseExamples, HistogramTellsQuantiles) {
  const gyre::steady_time begin{};
  const gyre::steady_time end = begin + std::chrono::nanoseconds(20);
  gyre::histogram took;
  took.record(end - begin);
  const std::chrono::nanoseconds high = took.quantile(0.99);
  EXPECT_EQ(high, std::chrono::nanoseconds(20));
}

// gyre/base/log_level.hpp, docs/guide/programs.md
TEST(BaseExamples, LogLevelHidesWarnings) {
  gyre::set_log_level(gyre::log_level::error);
  gyre::set_log_writer([](gyre::log_level level, std::string_view message) noexcept {
    std::clog << gyre::to_string(level) << ' ' << message << '\n';
  });
  EXPECT_EQ(gyre::current_log_level(), gyre::log_level::error);
  gyre::set_log_writer(nullptr);
  gyre::set_log_level(gyre::log_level::info);
}

// gyre/base/constant_time_equal.hpp
TEST(BaseExamples, ConstantTimeEqualRefusesOtherTexts) {
  const auto is_refused = [secret = std::string("secret")](std::string_view text) {
    const auto refuse = [] { return true; };
    if (!gyre::constant_time_equal(secret, text)) return refuse();
    return false;
  };
  EXPECT_TRUE(is_refused("secre7"));
  EXPECT_FALSE(is_refused("secret"));
}

// gyre/base/move_only_any.hpp
TEST(BaseExamples, MoveOnlyAnyHoldsAUniquePtr) {
  int used = 0;
  const auto use = [&](int number) { used = number; };
  gyre::move_only_any attached = std::make_unique<int>(7);
  if (auto* number = attached.get_if<std::unique_ptr<int>>()) use(**number);
  EXPECT_EQ(used, 7);
}

// gyre/base/operation.hpp
int greetings = 0;
struct greet : gyre::operation {
  greet() : operation([](operation& self) { static_cast<greet&>(self).hello(); }) {}
  void hello();
};
void greet::hello() { ++greetings; }

TEST(BaseExamples, OperationRunsOncePerPost) {
  greetings = 0;
  gyre::loop loop;
  greet op;
  loop.post(op);
  loop.post([&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(greetings, 1);
}

// gyre/base/version.hpp
TEST(BaseExamples, VersionIsKnownBeforeAndAfterLinking) {
#if GYRE_VERSION < 100  // 0.1.0
#error "this program needs gyre 0.1"
#endif
  const std::string_view installed = gyre::library_version();  // "0.1.0"
  EXPECT_EQ(installed, GYRE_VERSION_STRING);
}

}  // namespace
}  // namespace base_test
