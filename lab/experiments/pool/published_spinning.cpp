// SPDX-License-Identifier: Apache-2.0
// The published pool that does not block: a std::queue under a spin lock; a worker that finds the
// queue empty yields and tries again.
#include <lab/experiments/pool/published.hpp>
#include <lab/experiments/pool/workload.hpp>

#include <atomic>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>

namespace {

using lab::pool::wrapped_task;

class spin_lock {
 public:
  void lock() {
    while (locked_.test_and_set(std::memory_order_acquire)) {  // acquire: pairs with unlock().
    }
  }
  void unlock() { locked_.clear(std::memory_order_release); }  // release: pairs with lock().

 private:
  std::atomic_flag locked_;
};

class spinning_queue {
 public:
  void push(wrapped_task task) {
    const std::lock_guard lock(lock_);
    tasks_.push(std::move(task));
  }

  bool take(wrapped_task& task) {
    while (!try_take(task)) {
      if (closed_.load()) return try_take(task);
      std::this_thread::yield();
    }
    return true;
  }

  void close() { closed_.store(true); }

 private:
  bool try_take(wrapped_task& task) {
    const std::lock_guard lock(lock_);
    if (tasks_.empty()) return false;
    task = std::move(tasks_.front());
    tasks_.pop();
    return true;
  }

  spin_lock lock_;
  std::queue<wrapped_task> tasks_;  // guarded by lock_
  std::atomic<bool> closed_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace lab::pool;
  return contender_main<published_pool<spinning_queue>>(argc, argv);
}
