// SPDX-License-Identifier: Apache-2.0
// thread_pool_options, thread_pool_metrics: the settings and the figures of a thread_pool.
#pragma once

#include <gyre/base/histogram.hpp>
#include <gyre/base/move_only_function.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace gyre {

/// How tasks find workers.
enum class scheduler : std::uint8_t {
  /// A queue for each submitting thread and each worker; idle workers take from others'.
  stealing,
  /// One queue for all, with a mutex and a condition variable.
  blocking,
  /// One queue for all, with a spin lock; workers without work yield and look again: they always
  /// use their CPUs.
  spinning,
};

/// How a full pool treats a submission: the submission
enum class when_full : std::uint8_t {
  block,        ///< waits for a slot, for `block_timeout` at most
  reject,       ///< is refused
  caller_runs,  ///< is run at once by the submitter
  drop_oldest,  ///< takes the slot of one of the tasks that wait longest, which is dropped
};

/// Which tasks start first. A task that has waited for `aging` goes before all others.
enum class task_priority : std::uint8_t { high, normal, low };

/// Fixed when the pool is constructed, but for the number of workers.
struct thread_pool_options {
  static constexpr std::size_t most_workers = 1024;

  /// 0: one for each CPU that the constructing thread may use.
  std::size_t workers = 0;
  gyre::scheduler scheduler = gyre::scheduler::stealing;
  /// Tasks that may wait; at least 1.
  std::size_t capacity = std::size_t{24} << 10;
  gyre::when_full when_full = gyre::when_full::block;
  std::chrono::nanoseconds block_timeout = std::chrono::nanoseconds::max();
  /// How long tasks of higher priority may go before one that waits.
  std::chrono::nanoseconds aging = std::chrono::milliseconds{100};
  /// Worker i is called name-i; the kernel keeps the first 15 bytes.
  std::string name = "pool";
  /// Worker i may run on cpus[i % cpus.size()]. Empty: on those of the constructing thread.
  std::vector<int> cpus = {};
  /// Called by each worker on its own thread: `on_start` before its first task, `on_stop` after its
  /// last one. Several workers may call them at once. Exceptions go to `on_exception`.
  move_only_function<void(std::size_t worker)> on_start = {};
  move_only_function<void(std::size_t worker)> on_stop = {};
  /// Receives the exception of a posted task, on the thread that ran it; called by several at once.
  /// Must not throw. The default prints the exception and terminates the program.
  move_only_function<void(std::exception_ptr)> on_exception = {};
  /// Whether tasks are timed, for the metrics; delayed ones are not. Costs some 60 ns a task.
  bool record_times = false;
};

/// Figures of a thread_pool. The 64-bit ones count since its construction; a coroutine counts each
/// time that it is resumed on the pool. Tasks that their submitter ran are in `run_by_submitter`
/// alone, delayed tasks are in `submitted` once they are due or dropped. When no task waits or
/// runs, submitted = finished + dropped.
struct thread_pool_metrics {
  std::uint64_t submitted = 0;         ///< accepted
  std::uint64_t started = 0;           ///< of the submitted ones
  std::uint64_t finished = 0;          ///< of the started ones; also by an exception
  std::uint64_t dropped = 0;           ///< not started: by drop_oldest, purge(), stop() and drain()
  std::uint64_t refused = 0;           ///< not accepted: full, timed out or closed
  std::uint64_t run_by_submitter = 0;  ///< by caller_runs, or by a worker that found no slot
  std::uint64_t exceptions = 0;        ///< given to on_exception
  std::uint64_t steals = 0;            ///< times a worker took from another worker's queue
  std::uint64_t parks = 0;             ///< times a worker went to sleep
  std::uint64_t wakeups = 0;           ///< times a submission woke a worker
  std::size_t waiting = 0;             ///< now, to be started; without delayed ones
  std::size_t delayed = 0;             ///< now, not yet due
  std::size_t workers = 0;             ///< now wanted, as thread_pool::workers()
  /// In nanoseconds, where record_times is set: from submission to start, and from start to end.
  histogram queue_wait = {};
  histogram run_time = {};
};

}  // namespace gyre
