// SPDX-License-Identifier: Apache-2.0
// The least work that is worth a second worker: the same computation in tasks of one size after
// another, all forked at once, or two at a time. Its time is to be compared with that of plain
// calls, which no library should exceed however small the tasks are.
#pragma once

#include <lab/harness/benchmark.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace lab::grain {

/// How the tasks are forked.
enum class shape { all_at_once, pairs };

struct parameters {
  grain::shape shape = shape::all_at_once;
  std::uint32_t steps = 1000;  ///< of each task, somewhat more than a nanosecond each
  std::uint32_t workers = 2;   ///< threads that compute, including a caller that computes
};

/// One task: `steps` multiplications, each of which waits for the one before.
inline std::uint64_t compute(std::uint32_t steps, std::uint64_t seed) {
  std::uint64_t value = seed;
  for (std::uint32_t i = 0; i < steps; ++i) {
    value = value * 6364136223846793005U + 1442695040888963407U;
    benchmark::DoNotOptimize(value);
  }
  return value;
}

/// The tasks of a round: some four milliseconds of work.
struct tasks {
  explicit tasks(std::uint32_t steps_of_each) : steps(steps_of_each) {
    count = std::clamp<std::size_t>(3'000'000 / steps, 8, 20'000);
    for (std::size_t i = 0; i < count; ++i) sum += compute(steps, i);
  }

  std::uint64_t run(std::size_t index) const { return compute(steps, index); }

  std::uint32_t steps;
  std::size_t count;
  std::uint64_t sum = 0;  ///< of all results
};

/// The interface of a contender: workers that return the sum of the results.
template <class Pool>
concept contender_pool =
    std::constructible_from<Pool, std::uint32_t> && requires(Pool& pool, const tasks& all) {
      { pool.all_at_once(all) } -> std::same_as<std::uint64_t>;
      { pool.pairs(all) } -> std::same_as<std::uint64_t>;
    };

template <contender_pool Pool>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Pool pool(cell.workers);
  const tasks all(cell.steps);
  std::uint64_t sum = 0;
  std::uint64_t rounds = 0;
  const auto round = [&] {
    sum += cell.shape == shape::pairs ? pool.pairs(all) : pool.all_at_once(all);
    ++rounds;
  };

  round();
  const double seconds = seconds_per_call(round, harness);
  if (harness.sabotage == fault::lose) sum -= 1;
  if (harness.sabotage == fault::duplicate) sum += 1;

  result.metric("ns_per_task", seconds * 1e9 / static_cast<double>(all.count));
  result.metric("seconds", seconds);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  result.units("task", rounds * all.count);
  result.check("sum", sum, rounds * all.sum);
}

/// The main() of a contender of this experiment.
template <contender_pool Pool>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("shape", cell.shape, "how the tasks are forked",
              {{"all_at_once", shape::all_at_once}, {"pairs", shape::pairs}})
      .number("steps", cell.steps, "steps of each task", 1, 10'000'000)
      .number("workers", cell.workers, "threads that compute", 1, 256);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Pool>(cell, harness, result);
                             });
}

}  // namespace lab::grain
