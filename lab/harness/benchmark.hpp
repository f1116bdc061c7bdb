// SPDX-License-Identifier: Apache-2.0
// Timing of a call that takes microseconds: Google Benchmark chooses how often to repeat it.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/timing.hpp>

#include <benchmark/benchmark.h>

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

namespace lab {
namespace detail {

/// A reporter of Google Benchmark that keeps the time of a call and prints nothing.
class silent_reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& each : runs) {
      seconds_ = each.real_accumulated_time / static_cast<double>(each.iterations);
    }
  }

  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

}  // namespace detail

/// Repeats `call` for about `least_seconds` and returns the seconds that one call took. A handicap
/// makes each call take that many percent longer; the clock is then read for every call.
template <std::invocable Call>
double seconds_per_call(Call call, const harness_options& harness, double least_seconds = 0.05) {
  const auto measured = [&](benchmark::State& state) {
    if (harness.handicap > 0) {
      stopwatch watch(harness.handicap);
      for (auto _ : state) {
        watch.start();
        call();
        watch.stop();
      }
    } else {
      for (auto _ : state) call();
    }
  };
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark("call", measured)->UseRealTime()->MinTime(least_seconds);
  detail::silent_reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return reporter.seconds();
}

}  // namespace lab
