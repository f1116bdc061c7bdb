// SPDX-License-Identifier: Apache-2.0
// Cost of running very many coroutines at once and collecting their results: each coroutine is a
// chain of 50 that never waits, so only starting, joining and calling are measured. Without an
// executor the chains run one after another inside the collecting await; with a loop each chain is
// posted to it; on a pool of two threads each library shares the chains out in its own way. The
// result is waited for synchronously, as in the published experiment.
#pragma once

#include <lab/experiments/coroutine_chain/chain.hpp>
#include <lab/experiments/coroutine_chain/floors.hpp>
#include <lab/harness/benchmark.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

namespace lab::coroutine_collect_all {

using coroutine_chain::chain_end;
using coroutine_chain::link;
using coroutine_chain::sum_of_chain;
using coroutine_chain::task_of;

/// Where the tasks run.
enum class executor { none, loop, pool };

/// Links of each task's chain: a constant, as each link is a function.
inline constexpr int links = 50;

/// Threads of the pool.
inline constexpr int pool_threads = 2;

struct parameters {
  std::uint32_t tasks = 5000;
  std::uint32_t links = coroutine_collect_all::links;
  coroutine_collect_all::executor executor = executor::none;
};

/// The interface of a contender: runs that many chains of `links` links and adds up their results.
template <class Collector>
concept contender_collector =
    std::default_initializable<Collector> && requires(Collector& collector, std::uint32_t tasks) {
      { collector.collect(tasks) } -> std::same_as<std::uint64_t>;
    };

/// The collector for an executor that a contender lacks.
struct not_offered {
  std::uint64_t collect(std::uint32_t) { throw usage_error("this contender has no such executor"); }
};

/// The floors: chains of plain functions.
template <class Frame>
struct calls {
  std::uint64_t collect(std::uint32_t tasks) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      int value = coroutine_chain::call_link<Frame, links>();
      benchmark::DoNotOptimize(value);
      sum += static_cast<std::uint64_t>(value);
    }
    return sum;
  }
};

/// The tasks of one round, not started yet.
template <class Runtime>
std::vector<task_of<Runtime>> make_tasks(std::uint32_t count) {
  std::vector<task_of<Runtime>> tasks;
  for (std::uint32_t i = 0; i < count; ++i) tasks.push_back(link<Runtime, links>());
  return tasks;
}

template <contender_collector Collector>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Collector collector;
  std::uint64_t sum = 0;
  std::uint64_t rounds = 0;
  const auto round = [&](std::uint32_t tasks) {
    sum += collector.collect(tasks);
    ++rounds;
  };

  const double seconds = seconds_per_call([&] { round(cell.tasks); }, harness);
  const auto allocations_before = allocations();
  const auto bytes_before = allocated_bytes();
  round(cell.tasks);
  const auto allocations_after = allocations();
  const auto bytes_after = allocated_bytes();
  if (harness.sabotage == fault::lose) round(cell.tasks - 1);
  if (harness.sabotage == fault::duplicate) round(cell.tasks + 1);

  const double tasks = cell.tasks;
  result.metric("ns_per_round", seconds * 1e9);
  result.metric("ns_per_task", seconds * 1e9 / tasks);
  result.metric("ns_per_link", seconds * 1e9 / tasks / links);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto of_task = [&](std::uint64_t before, std::uint64_t after) {
      return static_cast<double>(after - before) / tasks;
    };
    result.metric("allocations_per_task", of_task(*allocations_before, *allocations_after));
    result.metric("bytes_per_task", of_task(*bytes_before, *bytes_after));
  }
  result.units("task", rounds * cell.tasks);
  result.check("sum", sum, rounds * cell.tasks * sum_of_chain(links));
}

/// The main() of a contender of this experiment.
template <contender_collector Inline, contender_collector OnLoop = not_offered,
          contender_collector OnPool = not_offered>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("tasks", cell.tasks, "tasks collected in a round", 2, 1'000'000)
      .number("links", cell.links, "links of each task's chain", links, links)
      .choice("executor", cell.executor, "where the tasks run",
              {{"none", executor::none}, {"loop", executor::loop}, {"pool", executor::pool}});
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               switch (cell.executor) {
                                 case executor::none: return run<Inline>(cell, harness, result);
                                 case executor::loop: return run<OnLoop>(cell, harness, result);
                                 case executor::pool: return run<OnPool>(cell, harness, result);
                               }
                             });
}

}  // namespace lab::coroutine_collect_all
