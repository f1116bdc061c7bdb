// SPDX-License-Identifier: Apache-2.0
// The main() of every contender: reads the command line, runs the workload, prints the result line
// that the lab's runner reads. docs/lab describes the line; README.md here tells how to write a
// contender.
#pragma once

#include <lab/harness/arguments.hpp>
#include <lab/harness/built_as.hpp>
#include <lab/harness/json.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lab {

/// The names and versions of the libraries that a contender uses: {{"libuv", "1.44.2"}}.
using libraries = std::vector<std::pair<std::string, std::string>>;

/// The name of the measured program, and how it was built.
struct identity {
  std::string experiment;
  std::string contender;
  std::string compiler;
  std::string flags;
  lab::libraries libraries;
};

/// The identity of this program, as the build defines it.
inline identity this_contender(libraries versions = {}) {
  return {built_as.experiment, built_as.contender, built_as.compiler, built_as.flags,
          std::move(versions)};
}

/// A fault that a program injects into itself, to prove that its own check finds the fault.
enum class fault { none, lose, duplicate };

/// The options that every contender takes beside its parameters.
struct harness_options {
  std::vector<unsigned> pin;       ///< CPUs that the process may use; empty: all
  double handicap = 0;             ///< percent by which the program slows itself down
  fault sabotage = fault::none;    ///< the fault injected into one task
  std::uint32_t memory_limit = 0;  ///< MiB that the process may use; 0: no limit
};

/// Thrown by a workload when this machine cannot run the cell, by no fault of the contender.
struct cannot_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The result of one run: figures to compare, and checks that say whether the figures are valid.
class report {
 public:
  report(identity program, json_object parameters)
      : program_(std::move(program)), parameters_(std::move(parameters)) {}

  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  void metric(std::string_view name, Number value) {
    metrics_.add(name, value);
  }

  /// A metric that this contender may be unable to measure; a missing value is left out.
  template <class Number>
  void metric(std::string_view name, const std::optional<Number>& value) {
    if (value) metric(name, *value);
  }

  /// The work that the whole process did, warm-up included, in units such as "task" or "hop": the
  /// divisor of figures that are known for the whole process only (`tools/lab explain`).
  void units(std::string_view name, std::uint64_t count) {
    unit_ = name;
    units_ = count;
  }

  /// Records a count; the run fails when `actual` differs from `expected`.
  void check(std::string_view name, std::uint64_t actual, std::uint64_t expected);

  /// Marks the run as failed for a reason that is no count; the first reason is kept.
  void fail(std::string_view reason) {
    if (error_.empty()) error_ = reason;
  }

  /// Marks the run as failed by its memory limit, which is no mistake of the program.
  void out_of_memory(std::string_view reason) {
    out_of_memory_ = true;
    fail(reason);
  }

  /// Marks the run as not made: this machine lacks something that the run needs.
  void refuse(std::string_view reason) {
    refused_ = true;
    fail(reason);
  }

  bool ok() const { return error_.empty(); }
  bool refused() const { return refused_; }

  /// The result line, without a newline.
  std::string text() const;

  /// Prints the line of a failed run and ends the process at once, with status 1: for a run that
  /// makes no progress and whose threads cannot be joined.
  [[noreturn]] void abandon();

 private:
  identity program_;
  json_object parameters_;
  json_object metrics_;
  json_object checks_;
  std::string unit_;
  std::uint64_t units_ = 0;
  std::string error_;
  bool out_of_memory_ = false;
  bool refused_ = false;
};

/// Runs a contender and returns its exit status:
///
/// | status | meaning                                                           |
/// |--------|-------------------------------------------------------------------|
/// | 0      | all checks hold                                                   |
/// | 1      | a check failed, or `workload` threw                               |
/// | 2      | the command line is invalid                                       |
/// | 3      | --memory-limit was exceeded; the process ends without returning   |
/// | 4      | `workload` threw cannot_run                                       |
///
/// Prints the result line on stdout and anything else on stderr. `parameters` holds the parameters
/// of the workload; the options of harness_options and --help are added here.
int contender_main(int argc, const char* const* argv, const identity& program,
                   arguments& parameters,
                   const std::function<void(const harness_options&, report&)>& workload);

}  // namespace lab
