// SPDX-License-Identifier: Apache-2.0
// An executor with a thread of its own, for tests of coroutines on several threads. Simple on
// purpose: a mutex, a condition variable, a queue.
//
//     gyre::test::thread_executor there;
//     gyre::sync_wait(gyre::on(there, work()));
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/executor.hpp>

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace gyre::test {

/// std::this_thread::get_id() for coroutines, in which Clang treats the id as a constant and keeps
/// it across a suspension that ends on another thread.
[[gnu::noinline]] inline std::thread::id this_thread_id() noexcept {
  __asm__ volatile("" ::: "memory");
  return std::this_thread::get_id();
}

/// Runs operations in the order of their posts. The destructor waits until no operations are left,
/// including those that the last ones post.
class thread_executor final : public executor {
 public:
  void post(operation& op) noexcept override {
    // Notifies with the lock held: the operation may end the executor.
    const std::lock_guard lock(mutex_);
    waiting_.push_back(op);
    posted_.notify_one();
  }
  bool running_here() const noexcept override { return this_thread_id() == id(); }

  /// The id of the executor's thread.
  std::thread::id id() const noexcept { return thread_.get_id(); }

 private:
  void run(const std::stop_token& drained) {
    std::unique_lock lock(mutex_);
    while (posted_.wait(lock, drained, [this] { return !waiting_.empty(); })) {
      operation& next = *waiting_.pop_front();
      lock.unlock();
      next.execute();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any posted_;
  intrusive_queue<operation> waiting_;
  std::jthread thread_{[this](const std::stop_token& drained) { run(drained); }};
};

}  // namespace gyre::test
