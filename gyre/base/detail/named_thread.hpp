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

/// A thread whose name and CPUs are in force before `work` begins. The owner must join or detach
/// the thread before it destroys this object; asserted.
///
/// All of gyre's threads are of this class. They block the asynchronous signals, in addition to the
/// signals that their creator blocks, so that signals of the process reach the program's own
/// threads and signal_set. Synchronous signals (such as SIGSEGV and SIGPIPE) and signals of
/// profilers (SIGPROF, SIGVTALRM) are not blocked.
class named_thread {
 public:
  /// Throws std::system_error: EAGAIN for too many threads, EINVAL for a CPU that does not exist.
  named_thread(const std::string& name, const std::vector<int>& cpus,
               move_only_function<void()> work);
  named_thread& operator=(named_thread&&) = delete;
  ~named_thread();
  /// Waits for the end of the thread. Idempotent. Throws std::system_error (EDEADLK) if called by
  /// the thread itself.
  void join();
  /// Like join(), but returns false if the thread has not ended after `timeout`.
  bool join_for(std::chrono::nanoseconds timeout);
  /// Detaches the thread. Must not be called after join().
  void detach() noexcept;
  /// Returns whether the calling thread is this thread.
  bool is_current() const noexcept {
    return !is_joined_or_detached_ && ::pthread_equal(thread_, ::pthread_self());
  }

 private:
  // Becomes ready when `work` has ended. join_for() waits for the future, because ThreadSanitizer
  // does not support pthread_clockjoin_np().
  std::future<void> completion_;
  pthread_t thread_{};
  bool is_joined_or_detached_ = false;
};

}  // namespace gyre::detail
