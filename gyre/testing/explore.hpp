// SPDX-License-Identifier: Apache-2.0
// explore: runs a program of coroutines under many pseudo-random schedules, and reports the seed of
// the first schedule that fails.
//
//     const auto found = gyre::testing::explore(1000, [](gyre::executor&) -> gyre::task<> {
//       gyre::mutex mutex;
//       int count = 0;
//       co_await gyre::when_all(add_one(mutex, count), add_one(mutex, count));
//       if (count != 2) throw std::logic_error("an update was lost");
//     });
//     EXPECT_TRUE(found.passed()) << found.message;
#pragma once

#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace gyre::testing {

/// Settings of explore().
struct explore_options {
  /// The seed of the first schedule; later schedules use the numbers that follow.
  std::uint64_t first_seed = 1;
  /// The maximum number of steps of a schedule, which otherwise fails. A step runs an operation or
  /// expires a timer.
  std::size_t step_limit = 100'000;
  /// Whether timers may expire while operations are pending, as on a slow machine: finds races
  /// between a result and its time limit. Otherwise time passes only when no operation is pending.
  bool early_timers = false;
  /// Whether to request a stop of the program at a pseudo-random step of each schedule. A program
  /// that ends because of the stop passes.
  bool stops = false;
  /// Called after each schedule; returns whether the schedule failed without an exception. With
  /// GoogleTest, `[] { return testing::Test::HasFailure(); }`.
  std::function<bool()> has_failed = {};
};

/// The result of explore().
struct exploration {
  /// The number of schedules that were run.
  std::size_t schedules = 0;
  /// The seed of the schedule that failed, which is the last one that was run.
  std::optional<std::uint64_t> failed_seed = {};
  /// The exception of the failed schedule; null if explore_options::has_failed reported the
  /// failure.
  std::exception_ptr error = {};
  /// The number, the seed and the error of the failed schedule; empty if none failed.
  std::string message = {};

  [[nodiscard]] bool passed() const noexcept { return !failed_seed; }
};

/// Runs `program` up to `schedules` times, each time on a new executor that chooses the next
/// operation by a seed (a random walk) and has virtual time, until a schedule fails. A schedule
/// fails if
/// - the program throws,
/// - the program waits, but no operation is pending and no timer is started (std::logic_error): a
///   deadlock,
/// - the program needs too many steps (std::logic_error),
/// - explore_options::has_failed returns true.
///
/// A seed and a program result in the same schedule on every machine, if the program constructs its
/// state in each call and uses no clock, no thread and no randomness of its own. Writes the message
/// of a failure to stderr, and also the seed of a schedule that aborts the process (SIGABRT), for
/// example by an exception that leaves a detached coroutine. To replay a schedule, run one schedule
/// with that first_seed, or set GYRE_TESTING_SEED in the environment: then explore() runs only the
/// schedule of that seed.
///
/// A schedule reorders posted operations on one thread: it finds wrong orders of coroutines between
/// their suspensions, but no data races between threads. Passing does not prove correctness.
///
/// Thread-safety: the calling thread runs everything.
/// Lifetime: a failed schedule is requested to stop, so that its coroutines end. Coroutines that do
/// not end are leaked.
/// Errors: std::invalid_argument if GYRE_TESTING_SEED is not a number, or `program` is empty.
exploration explore(std::size_t schedules, const std::function<task<>(executor&)>& program,
                    const explore_options& options = {});

}  // namespace gyre::testing
