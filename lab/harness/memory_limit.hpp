// SPDX-License-Identifier: Apache-2.0
// A limit on a contender's memory that makes its death a result: queues without a bound grow until
// the machine has no more, and when they do is a figure like any other.
#pragma once

#include <lab/harness/timing.hpp>

#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace lab {

/// While it lives, the process may have so much memory that it can write to, its threads' stacks
/// included (RLIMIT_DATA); beyond that allocations fail. A std::bad_alloc that nobody catches, on
/// any thread, then ends the process in good order instead of aborting it. One at a time.
class memory_limit {
 public:
  /// Called once, with the limit lifted, by the thread that found no memory, while others run on;
  /// `what` says after how many seconds and at which limit. The process ends when it returns.
  using last_words = std::function<void(const std::string& what)>;

  /// Exit status of a process that has run out of memory.
  static constexpr int exit_status = 3;

  /// `mebibytes` is not 0. Throws std::system_error when the limit cannot be set.
  memory_limit(std::uint64_t mebibytes, last_words say);

  /// Lifts the limit.
  ~memory_limit();

  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;

  /// Ends the process as an uncaught std::bad_alloc does: for one that was caught. Any thread.
  [[noreturn]] void exceeded();

 private:
  [[noreturn]] static void on_terminate();

  static memory_limit* current_;  // a terminate handler takes no argument

  last_words say_;
  std::uint64_t mebibytes_;
  clock::time_point began_ = clock::now();
  rlimit before_{};
  std::terminate_handler terminate_before_ = nullptr;
  std::atomic_flag over_;
};

}  // namespace lab
