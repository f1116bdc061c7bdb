// SPDX-License-Identifier: Apache-2.0
// The published blocking pool: a std::queue under a mutex, a condition variable for the workers.
#include <lab/experiments/pool/published.hpp>
#include <lab/experiments/pool/workload.hpp>

#include <condition_variable>
#include <mutex>
#include <queue>
#include <utility>

namespace {

using lab::pool::wrapped_task;

class blocking_queue {
 public:
  void push(wrapped_task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push(std::move(task));
    }
    changed_.notify_one();
  }

  bool take(wrapped_task& task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) return false;
    task = std::move(tasks_.front());
    tasks_.pop();
    return true;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<wrapped_task> tasks_;  // guarded by mutex_
  bool closed_ = false;             // guarded by mutex_
};

}  // namespace

int main(int argc, char** argv) {
  using namespace lab::pool;
  return contender_main<published_pool<blocking_queue>>(argc, argv);
}
