// SPDX-License-Identifier: Apache-2.0
// thread_pool_options, thread_pool_metrics: the settings and the counters of a thread_pool.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/metrics/writable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace gyre {

/// The queues from which workers take tasks.
enum class scheduler : std::uint8_t {
  /// A queue for each submitting thread and each worker; idle workers steal from the others.
  stealing,
  /// One queue for all workers, with a mutex and a condition variable.
  blocking,
  /// One queue for all workers, with a spin lock. Idle workers yield and poll again, so they always
  /// use their CPUs.
  spinning,
};

/// How to handle a submission to a full pool.
enum class when_full : std::uint8_t {
  block,        ///< wait for a slot, at most for `block_timeout`
  reject,       ///< refuse the submission
  caller_runs,  ///< run the task on the submitting thread
  drop_oldest,  ///< drop one of the oldest and least urgent waiting tasks
};

/// The start order: high before normal before low. Two rules prevent starvation: tasks of low
/// priority that have waited for `aging` come first (in a `stealing` pool, at least at each 61st
/// start), and each 61st start prefers a normal task.
enum class task_priority : std::uint8_t { high, normal, low };

/// Settings of a thread_pool, fixed at construction; resize() changes the number of workers.
struct thread_pool_options {
  static constexpr std::size_t max_workers = 1024;

  /// The number of workers, at most max_workers. 0: available_parallelism(), which respects the
  /// quota of a container.
  std::size_t workers = 0;
  gyre::scheduler scheduler = gyre::scheduler::stealing;
  /// The maximum number of waiting tasks; at least 1.
  std::size_t capacity = std::size_t{24} << 10;
  gyre::when_full when_full = gyre::when_full::block;
  duration block_timeout = duration::max();  ///< max(): no limit
  /// The time after which a waiting task of low priority comes first (see task_priority).
  duration aging = std::chrono::milliseconds{100};
  /// The name of worker i, from 0, is "name-i"; the kernel keeps the first 15 bytes.
  std::string name = "pool";
  /// The CPUs: worker i runs on cpus[i % cpus.size()]. Empty: the CPUs of the constructing thread.
  std::vector<int> cpus = {};
  /// Called by each worker on its own thread before its first task, by several workers at the same
  /// time. Exceptions are passed to `on_exception`.
  move_only_function<void(std::size_t worker)> on_start = {};
  /// Called by each worker on its own thread after its last task; otherwise like `on_start`.
  move_only_function<void(std::size_t worker)> on_stop = {};
  /// Receives the exceptions of posted tasks, on the threads that ran them. Must be thread-safe and
  /// must not throw. The default prints the exception and terminates the program.
  move_only_function<void(std::exception_ptr)> on_exception = {};
  /// Whether tasks, except delayed ones, are timed for the metrics. Costs some 60 ns per task.
  bool record_times = false;
};

/// Metrics of a thread_pool. The std::uint64_t fields count since its construction; a coroutine
/// counts each time that it is resumed on the pool. Tasks run by their submitter count only in
/// `run_by_submitter` (and `exceptions`). Delayed tasks count in `submitted` once they are due or
/// dropped. When no task waits or runs, submitted = finished + dropped.
struct thread_pool_metrics {
  std::uint64_t submitted = 0;         ///< accepted tasks
  std::uint64_t started = 0;           ///< submitted tasks that a thread has begun
  std::uint64_t finished = 0;          ///< started tasks that have ended, even by an exception
  std::uint64_t dropped = 0;           ///< by drop_oldest, purge(), stop() and drain()
  std::uint64_t refused = 0;           ///< submissions refused: full, timed out, drained or stopped
  std::uint64_t run_by_submitter = 0;  ///< by caller_runs, or by a worker that found no slot
  std::uint64_t exceptions = 0;        ///< exceptions passed to on_exception
  std::uint64_t steals = 0;            ///< times a worker took from another worker's queue
  std::uint64_t parks = 0;             ///< times a worker went to sleep
  std::uint64_t wakeups = 0;           ///< times a submission woke a worker
  std::size_t waiting = 0;             ///< tasks waiting now, without delayed ones
  std::size_t delayed = 0;             ///< delayed tasks that are not due now
  std::size_t workers = 0;             ///< thread_pool::workers()
  histogram queue_wait = {};  ///< nanoseconds from submission to start, if record_times is set
  histogram run_time = {};    ///< nanoseconds from start to end, if record_times is set
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const thread_pool_metrics& counts);

}  // namespace gyre
