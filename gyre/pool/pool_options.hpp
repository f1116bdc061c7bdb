// SPDX-License-Identifier: Apache-2.0
// thread_pool_options, thread_pool_metrics: the settings and the figures of a thread_pool.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/histogram.hpp>
#include <gyre/base/move_only_function.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace gyre {

/// The queues from which workers take tasks.
enum class scheduler : std::uint8_t {
  /// A queue for each submitting thread and each worker; idle workers take from others'.
  stealing,
  /// One queue for all, with a mutex and a condition variable.
  blocking,
  /// One queue for all, with a spin lock; workers without work yield and look again: they always
  /// use their CPUs.
  spinning,
};

/// The treatment of a submission to a full pool.
enum class when_full : std::uint8_t {
  block,        ///< the submission waits for a slot, for `block_timeout` at most
  reject,       ///< it is refused
  caller_runs,  ///< the submitter runs the task at once
  drop_oldest,  ///< one of the least urgent and oldest waiting tasks is dropped for it
};

/// The start order: high before normal before low. But low ones that have waited for `aging` go
/// first (in a `stealing` pool, in each 61st start at least); each 61st prefers a normal one.
enum class task_priority : std::uint8_t { high, normal, low };

/// Settings of a thread_pool, fixed at construction; resize() changes the number of workers.
struct thread_pool_options {
  static constexpr std::size_t max_workers = 1024;

  /// At most max_workers. 0: available_parallelism(), which heeds the quota of a container.
  std::size_t workers = 0;
  gyre::scheduler scheduler = gyre::scheduler::stealing;
  /// Tasks that may wait; at least 1.
  std::size_t capacity = std::size_t{24} << 10;
  gyre::when_full when_full = gyre::when_full::block;
  duration block_timeout = duration::max();  ///< max(): no limit
  /// The wait after which a task of low priority goes first (see task_priority).
  duration aging = std::chrono::milliseconds{100};
  /// Worker i, from 0, is called name-i; the kernel keeps the first 15 bytes.
  std::string name = "pool";
  /// Worker i may run on cpus[i % cpus.size()]. Empty: on those of the constructing thread.
  std::vector<int> cpus = {};
  /// Called by each worker on its own thread before its first task; by several at once. Exceptions
  /// go to `on_exception`.
  move_only_function<void(std::size_t worker)> on_start = {};
  /// Called by each worker on its own thread after its last task, as on_start.
  move_only_function<void(std::size_t worker)> on_stop = {};
  /// Receives the exceptions of posted tasks, on the threads that ran them: must be thread-safe,
  /// and not throw. The default prints the exception and terminates the program.
  move_only_function<void(std::exception_ptr)> on_exception = {};
  /// Whether tasks are timed, for the metrics; delayed ones are not. Costs some 60 ns a task.
  bool record_times = false;
};

/// Metrics of a thread_pool. The std::uint64_t fields count since its construction; a coroutine
/// counts each time that it is resumed on the pool. Tasks that their submitter ran are in
/// `run_by_submitter` only (and in `exceptions`), delayed tasks are in `submitted` once they are
/// due or dropped. When no task waits or runs, submitted = finished + dropped.
struct thread_pool_metrics {
  std::uint64_t submitted = 0;         ///< accepted
  std::uint64_t started = 0;           ///< submitted tasks that a thread has begun
  std::uint64_t finished = 0;          ///< started tasks that have ended, also by an exception
  std::uint64_t dropped = 0;           ///< not started: by drop_oldest, purge(), stop() and drain()
  std::uint64_t refused = 0;           ///< not accepted: full, timed out, drained or stopped
  std::uint64_t run_by_submitter = 0;  ///< by caller_runs, or by a worker that found no slot
  std::uint64_t exceptions = 0;        ///< given to on_exception
  std::uint64_t steals = 0;            ///< times a worker took from another worker's queue
  std::uint64_t parks = 0;             ///< times a worker went to sleep
  std::uint64_t wakeups = 0;           ///< times a submission woke a worker
  std::size_t waiting = 0;             ///< at present, without delayed ones
  std::size_t delayed = 0;             ///< at present, not yet due
  std::size_t workers = 0;             ///< as thread_pool::workers()
  histogram queue_wait = {};  ///< nanoseconds from submission to start, if record_times is set
  histogram run_time = {};    ///< nanoseconds from start to end, if record_times is set
};

}  // namespace gyre
