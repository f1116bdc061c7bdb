// SPDX-License-Identifier: Apache-2.0
// named_thread: a thread with a name, a set of CPUs and a join with a time limit.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <pthread.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

namespace gyre::detail {

/// A thread whose name and CPUs are in force before `work` begins. The owner joins or detaches the
/// thread before it destroys this object; asserted.
///
/// All of gyre's threads are of this class. They block the asynchronous signals, beside those that
/// their creator blocks, so that signals of the process reach the program's own threads and
/// signal_set. Synchronous signals (SIGSEGV, SIGPIPE and their like) and those of profilers
/// (SIGPROF, SIGVTALRM) are not blocked.
class named_thread {
 public:
  /// Throws std::system_error: EAGAIN for too many threads, EINVAL for a CPU that does not exist.
  named_thread(const std::string& name, const std::vector<int>& cpus,
               move_only_function<void()> work);
  named_thread& operator=(named_thread&&) = delete;
  ~named_thread();
  /// Waits for the end of the thread. Idempotent. Throws std::system_error (EDEADLK) on the thread
  /// itself.
  void join();
  /// As join(), but returns false after `timeout`.
  bool join_for(std::chrono::nanoseconds timeout);
  /// Lets the thread end on its own. Not after join().
  void detach() noexcept;
  /// Whether the calling thread is this one.
  bool is_current() const noexcept { return !ended_ && ::pthread_equal(thread_, ::pthread_self()); }

 private:
  // For join_for(): ThreadSanitizer does not know pthread_clockjoin_np().
  std::future<void> done_;
  pthread_t thread_{};
  bool ended_ = false;  // joined or detached
};

}  // namespace gyre::detail
