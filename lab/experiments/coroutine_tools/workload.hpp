// SPDX-License-Identifier: Apache-2.0
// Cost of the tools that programs of coroutines are made of: a one-shot reply, a tick of an
// interval, a task in a set whose results are taken as they finish, and a visit to a strand.
#pragma once

#include <lab/harness/contender.hpp>
#include <lab/harness/memory.hpp>
#include <lab/harness/timing.hpp>

#include <cstdint>
#include <utility>

namespace lab::coroutine_tools {

enum class tool { oneshot, interval, join_set, strand };

/// Tasks that are in a set at the same time.
inline constexpr std::uint64_t tasks_in_set = 100;
/// Coroutines that visit the strand, on a pool of two threads.
inline constexpr std::uint64_t visitors = 4;

struct parameters {
  coroutine_tools::tool tool = tool::oneshot;
  std::uint64_t operations = 100'000;
};

/// The sum of the numbers from 1 to `count`.
constexpr std::uint64_t sum_to(std::uint64_t count) { return count * (count + 1) / 2; }

// A contender is a class with some of these members:
//
//   std::uint64_t oneshots(std::uint64_t count);
//     Asks `count` times: makes a oneshot, posts a function to the own loop that sends the number of
//     the question (from 1 on), and awaits it. Returns the sum of the replies.
//   std::uint64_t ticks(std::uint64_t count);
//     Awaits `count` ticks of an interval of 1 ns that leaves none out. Returns the number of ticks.
//   std::uint64_t joins(std::uint64_t count);
//     Runs `count` tasks, `tasks_in_set` at a time, each of which yields once and returns its number
//     (from 1 on), and takes the results as the tasks finish. Returns their sum.
//   std::uint64_t visits(std::uint64_t count);
//     `visitors` coroutines on a pool of two threads go to a strand `count` times in all, increment
//     a plain number there, and go back to the pool. Returns that number.
template <class Contender>
std::uint64_t use(Contender& contender, tool which, std::uint64_t count) {
  switch (which) {
    case tool::oneshot:
      if constexpr (requires { contender.oneshots(count); }) return contender.oneshots(count);
      break;
    case tool::interval:
      if constexpr (requires { contender.ticks(count); }) return contender.ticks(count);
      break;
    case tool::join_set:
      if constexpr (requires { contender.joins(count); }) return contender.joins(count);
      break;
    case tool::strand:
      if constexpr (requires { contender.visits(count); }) return contender.visits(count);
      break;
  }
  throw usage_error("this contender has no such tool");
}

/// A small round warms up, the second is timed.
template <class Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Contender contender;
  const std::uint64_t few = cell.operations / 50 + tasks_in_set;
  use(contender, cell.tool, few);

  std::uint64_t count = cell.operations;
  if (harness.sabotage == fault::lose) --count;
  if (harness.sabotage == fault::duplicate) ++count;
  stopwatch watch(harness.handicap);
  const auto allocations_before = allocations();
  watch.start();
  const std::uint64_t total = use(contender, cell.tool, count);
  watch.stop();
  const auto allocations_after = allocations();

  const auto operations = static_cast<double>(cell.operations);
  result.metric("ns_per_operation", watch.seconds() * 1e9 / operations);
  result.metric("seconds", watch.seconds());
  if (allocations_after) {
    const auto made = static_cast<double>(*allocations_after - *allocations_before);
    result.metric("allocations_per_operation", made / operations);
  }
  result.units("operation", few + cell.operations);
  const bool sums = cell.tool == tool::oneshot || cell.tool == tool::join_set;
  result.check("total", total, sums ? sum_to(cell.operations) : cell.operations);
}

/// The main() of a contender of this experiment.
template <class Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options
      .choice("tool", cell.tool, "the tool that is used",
              {{"oneshot", tool::oneshot},
               {"interval", tool::interval},
               {"join_set", tool::join_set},
               {"strand", tool::strand}})
      .number("operations", cell.operations, "uses of it", 1'000, std::uint64_t{1} << 32);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Contender>(cell, harness, result);
                             });
}

}  // namespace lab::coroutine_tools
