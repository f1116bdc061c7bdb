// SPDX-License-Identifier: Apache-2.0
// The main() of every contender: reads the command line, runs the workload, prints the result line
// the lab's runner reads. docs/lab describes the line; README.md here, how to write a contender.
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

/// The names and versions of the libraries a contender is made of: {{"libuv", "1.44.2"}}.
using libraries = std::vector<std::pair<std::string, std::string>>;

/// Who is measured and how it was built.
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

/// What a program does wrong on purpose, so that its own check can be seen to catch it.
enum class mishap { none, lose, duplicate };

/// The options every contender takes beside its parameters.
struct harness_options {
  std::vector<unsigned> pin;       ///< CPUs the process may use; empty: all
  double handicap = 0;             ///< how many percent slower it makes itself
  mishap sabotage = mishap::none;  ///< what it does to one task
  std::uint32_t memory_limit = 0;  ///< MiB the process may have; 0: all it can get
};

/// What a workload throws when this machine cannot run the cell, by no fault of the contender.
struct cannot_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What one run found: figures to compare, and checks that say whether they mean anything.
class report {
 public:
  report(identity who, json_object parameters)
      : who_(std::move(who)), parameters_(std::move(parameters)) {}

  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  void metric(std::string_view name, Number value) {
    metrics_.add(name, value);
  }

  /// A metric that this contender may not be able to tell; it is left out then.
  template <class Number>
  void metric(std::string_view name, const std::optional<Number>& value) {
    if (value) metric(name, *value);
  }

  /// Notes how much of something there was; the run fails unless it is what was expected.
  void check(std::string_view name, std::uint64_t actual, std::uint64_t expected);

  /// The run fails for a reason that is no number.
  void fail(std::string_view why) {
    if (error_.empty()) error_ = why;
  }

  /// The run fails because the memory allowed did not suffice, which is no mistake of the program.
  void out_of_memory(std::string_view why) {
    out_of_memory_ = true;
    fail(why);
  }

  /// The run did not take place: this machine does not have what it needs.
  void refuse(std::string_view why) {
    refused_ = true;
    fail(why);
  }

  bool ok() const { return error_.empty(); }
  bool refused() const { return refused_; }

  /// The result line, without a line end.
  std::string text() const;

  /// Prints the line of a failed run and ends the process at once, with status 1: for a run that
  /// stands still, whose threads cannot be joined.
  [[noreturn]] void abandon();

 private:
  identity who_;
  json_object parameters_;
  json_object metrics_;
  json_object checks_;
  std::string error_;
  bool out_of_memory_ = false;
  bool refused_ = false;
};

/// Runs a contender and returns its exit status: 0 when its checks hold, 1 when they do not or
/// `workload` throws, 2 for a command line that makes no sense, 4 when it throws cannot_run; ends
/// the process with status 3 when --memory-limit leaves it too little. Prints the result line on
/// stdout and anything else on stderr. `parameters` holds the parameters of the workload; the
/// options of harness_options and --help are added here.
int contender_main(int argc, const char* const* argv, const identity& who, arguments& parameters,
                   const std::function<void(const harness_options&, report&)>& workload);

}  // namespace lab
