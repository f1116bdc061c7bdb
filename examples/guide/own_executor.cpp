// SPDX-License-Identifier: Apache-2.0
// Another runtime's queue as an executor: here, a thread that runs functions one after the other.
#include <gyre/task/executor.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <iostream>
#include <mutex>
#include <thread>
#include <utility>

class foreign_runtime {
 public:
  void call_later(std::function<void()> function) {
    const std::lock_guard hold(mutex_);
    waiting_.push_back(std::move(function));
    changed_.notify_one();
  }
  bool is_my_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run(std::stop_token stop) {
    for (std::unique_lock hold(mutex_);;) {
      changed_.wait(hold, stop, [&] { return !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto next = std::move(waiting_.front());
      waiting_.pop_front();
      hold.unlock();
      next();
      hold.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::jthread thread_{[this](std::stop_token stop) { run(std::move(stop)); }};
};

class foreign_executor final : public gyre::executor {
 public:
  explicit foreign_executor(foreign_runtime& runtime) : runtime_(runtime) {}

  void post(gyre::operation& op) noexcept override {
    runtime_.call_later([&op] { op.execute(); });
  }
  bool running_here() const noexcept override { return runtime_.is_my_thread(); }

 private:
  foreign_runtime& runtime_;
};

gyre::task<bool> is_there(gyre::executor& target) {
  co_await gyre::resume_on(target);
  co_return target.running_here();
}

int main() {
  foreign_runtime runtime;
  foreign_executor executor(runtime);
  std::cout << std::boolalpha << gyre::sync_wait(is_there(executor)) << '\n';
}
