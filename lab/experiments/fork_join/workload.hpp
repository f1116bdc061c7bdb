// SPDX-License-Identifier: Apache-2.0
// Cost of a fork-join task with little or no work, and the speed-up by a second worker: each
// problem is passed to the pool as a whole, again and again, and waited for.
#pragma once

#include <lab/experiments/fork_join/problems.hpp>
#include <lab/harness/benchmark.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace lab::fork_join {

struct parameters {
  fork_join::shape shape = shape::fibonacci;
  std::uint32_t size = 30;
  std::uint32_t workers = 1;  ///< threads that compute, including a caller that computes
};

/// The interface of a contender: workers that return a problem's answer.
template <class Pool>
concept contender_pool =
    std::constructible_from<Pool, std::uint32_t> && requires(Pool& pool, problem& what) {
      { pool.solve(what) } -> std::same_as<std::uint64_t>;
    };

template <contender_pool Pool>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Pool pool(cell.workers);
  problem what(cell.shape, cell.size);
  std::uint64_t sum = 0;
  std::uint64_t rounds = 0;
  const auto round = [&] {
    sum += pool.solve(what);
    ++rounds;
  };

  round();
  const double seconds = seconds_per_call(round, harness);
  what.matrices.clear();  // the last round's blocks are all checked
  const auto allocations_before = allocations();
  round();
  const auto allocations_after = allocations();
  if (harness.sabotage == fault::lose) sum -= 1;
  if (harness.sabotage == fault::duplicate) sum += 1;

  const auto tasks = static_cast<double>(what.tasks);
  result.metric("ns_per_task", seconds * 1e9 / tasks);
  result.metric("seconds", seconds);
  result.metric("peak_memory_bytes", peak_memory_bytes());
  if (allocations_after) {
    const auto count = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_task", count / tasks);
  }
  result.units("task", rounds * what.tasks);
  result.check("answers", sum, rounds * what.answer);
  if (cell.shape == shape::matrix) {
    result.check("right_rows", what.matrices.right_rows(), cell.size);
  }
}

/// The main() of a contender of this experiment.
template <contender_pool Pool>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("shape", cell.shape, "the problem",
              {{"fibonacci", shape::fibonacci},
               {"tree_sum", shape::tree_sum},
               {"queens", shape::queens},
               {"matrix", shape::matrix}})
      .number("size", cell.size, "n, levels of the tree, queens, or rows", 1, 4096)
      .number("workers", cell.workers, "threads that compute", 1, 256);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Pool>(cell, harness, result);
                             });
}

}  // namespace lab::fork_join
