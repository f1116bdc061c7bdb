// SPDX-License-Identifier: Apache-2.0
// The workload: the work of every contender, its timing and its checks.
#pragma once

#include <lab/harness/benchmark.hpp>
#include <lab/harness/contender.hpp>

#include <concepts>
#include <cstdint>
#include <utility>

namespace lab::EXPERIMENT {

struct parameters {
  std::uint32_t operations = 10;
};

/// A contender: does `count` operations and returns how many it has done.
template <class Contender>
concept contender =
    std::default_initializable<Contender> && requires(Contender& subject, std::uint32_t count) {
      { subject.run(count) } -> std::same_as<std::uint64_t>;
    };

template <contender Contender>
void run(const parameters& cell, const harness_options& harness, report& result) {
  Contender subject;
  std::uint64_t done = 0;
  std::uint64_t rounds = 0;
  const double seconds = seconds_per_call(
      [&] {
        done += subject.run(cell.operations);
        ++rounds;
      },
      harness);
  // Sabotage loses or repeats an operation on purpose, to prove that the check finds it.
  if (harness.sabotage == fault::lose) --done;
  if (harness.sabotage == fault::duplicate) ++done;

  result.metric("ns_per_operation", seconds * 1e9 / static_cast<double>(cell.operations));
  result.units("operation", done);
  result.check("operations", done, rounds * cell.operations);
}

/// The main() of a contender of this experiment.
template <contender Contender>
int contender_main(int argc, const char* const* argv, libraries versions = {}) {
  parameters cell;
  arguments options;
  options.number("operations", cell.operations, "operations in a round", 1, 1'000'000);
  return lab::contender_main(argc, argv, this_contender(std::move(versions)), options,
                             [&cell](const harness_options& harness, report& result) {
                               run<Contender>(cell, harness, result);
                             });
}

}  // namespace lab::EXPERIMENT
