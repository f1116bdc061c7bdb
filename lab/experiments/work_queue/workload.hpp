// SPDX-License-Identifier: Apache-2.0
// The workload: worker processes run durable jobs of a PostgreSQL database. A contender consists of
// programs of their own, so that a queue in any language can be one.
#pragma once

#include <lab/harness/contender.hpp>

#include <functional>
#include <string>
#include <vector>

namespace lab::work_queue {

/// The kind of the jobs, which is the task's or queue's name too.
inline constexpr const char* kind = "effect";

/// A contender. Its program is started with `command` and these words, where HOST is the folder of
/// the server's Unix socket, and DATABASE is fresh for each run:
///
/// | words | effect |
/// |---|---|
/// | `prepare HOST DATABASE` | makes its tables |
/// | `work HOST DATABASE` | inserts a row into `worker`, and runs jobs until it is killed |
/// | `submit HOST DATABASE FIRST COUNT INTERVAL_US` | submits the jobs FIRST to FIRST + COUNT - 1 |
///
/// With an interval a job is submitted each INTERVAL_US, in a transaction that also inserts
/// `(number, 1)` into `submission (first, count)`; with 0, all jobs and `(FIRST, COUNT)` together,
/// with one statement and in one transaction. The payload of job 17 is "00000017" and 56 times '.',
/// and its effect the row `(17, payload)` of `effect (number, payload)`.
struct queue_program {
  std::vector<std::string> command;
  /// The statement that gives the number of jobs whose end is not stored yet.
  std::string unfinished;
  /// Throws cannot_run where the contender does not run.
  std::function<void()> probe;
};

/// The main() of a contender of this experiment.
int contender_main(int argc, const char* const* argv, const queue_program& program,
                   libraries versions = {});

/// Runs a program of an experiment, such as a Python's, and gives what it prints.
/// Errors: throws cannot_run with `reason` if its exit status is not 0.
std::string output_of(const std::vector<std::string>& command, const std::string& reason);

}  // namespace lab::work_queue
