// SPDX-License-Identifier: Apache-2.0
// A thread with a name, a set of CPUs and a join that can give up waiting.
#pragma once

#include <gyre/base/move_only_function.hpp>

#include <pthread.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gyre::detail {

/// Name and CPUs are in force before the first line of `work` runs. The owner joins or detaches it
/// before it is destroyed; asserted.
///
/// All of gyre's threads are of this class, and so block the asynchronous signals, beside those
/// that their creator blocks: a signal that is sent to the process is left to the program's own
/// threads and to signal_set. Not blocked are those that a thread raises by what it does (SIGSEGV,
/// SIGPIPE and their like) and those of profilers (SIGPROF, SIGVTALRM).
class named_thread {
 public:
  /// Throws std::system_error: EAGAIN for too many threads, EINVAL for a CPU that is not there.
  named_thread(const std::string& name, const std::vector<int>& cpus,
               move_only_function<void()> work);
  named_thread(const named_thread&) = delete;
  named_thread& operator=(const named_thread&) = delete;
  ~named_thread();

  /// Waits for the end of the thread; at once when it was joined before. Throws std::system_error
  /// (EDEADLK) on the thread itself.
  void join();
  /// The same, at most for `timeout`; false when that has passed.
  bool join_for(std::chrono::nanoseconds timeout);
  /// Lets it end on its own; not after join().
  void detach() noexcept;
  /// Whether the calling thread is this one.
  bool is_current() const noexcept { return !ended_ && ::pthread_equal(thread_, ::pthread_self()); }

 private:
  class ending;

  std::shared_ptr<ending> ending_;
  pthread_t thread_{};
  bool ended_ = false;  // joined or detached
};

}  // namespace gyre::detail
