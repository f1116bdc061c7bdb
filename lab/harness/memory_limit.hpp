// SPDX-License-Identifier: Apache-2.0
// A limit on a contender's memory, whose excess is a result of the run: unbounded queues grow until
// memory runs out, and the time at which it does is a figure like any other.
#pragma once

#include <lab/harness/timing.hpp>

#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace lab {

/// Limits the writable memory of the process (RLIMIT_DATA), thread stacks included, for the
/// lifetime of the object; allocations beyond the limit fail. An uncaught std::bad_alloc, on any
/// thread, then reports the failure and ends the process instead of aborting it. At most one object
/// at a time.
class memory_limit {
 public:
  /// Called once, with the limit lifted, by the thread whose allocation failed, while other threads
  /// run on. `message` tells the time and the limit. The process ends when the handler returns.
  using exit_handler = std::function<void(const std::string& message)>;

  /// Exit status of a process that has run out of memory.
  static constexpr int exit_status = 3;

  /// `mebibytes` is not 0. Throws std::system_error when the limit cannot be set.
  memory_limit(std::uint64_t mebibytes, exit_handler on_exceeded);

  /// Lifts the limit.
  ~memory_limit();

  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;

  /// Ends the process as an uncaught std::bad_alloc does, for a std::bad_alloc that was caught.
  /// Thread-safety: any thread.
  [[noreturn]] void exceeded();

 private:
  [[noreturn]] static void on_terminate();

  static memory_limit* current_;  // a terminate handler takes no argument

  exit_handler on_exceeded_;
  std::uint64_t mebibytes_;
  clock::time_point began_ = clock::now();
  rlimit before_{};
  std::terminate_handler terminate_before_ = nullptr;
  std::atomic_flag over_;
};

}  // namespace lab
