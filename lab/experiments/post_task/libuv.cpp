// SPDX-License-Identifier: Apache-2.0
// libuv, which has no queue of its own, used as programs use it: a vector of callables under a
// mutex, swapped out by the callback of a uv_async_t. As gyre's inboxes do, producers sleep above
// 16,384 waiting callables.
#include <lab/experiments/post_task/workload.hpp>
#include <lab/harness/libuv_loop.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace {

class libuv_loop {
 public:
  static constexpr bool can_wake_per_task = false;

  explicit libuv_loop(lab::post_task::wakeup) {}

  void run() { loop_.run(); }
  void stop() { loop_.stop(); }

  template <class F>
  void post(F work) {
    {
      std::unique_lock lock(mutex_);
      has_space_.wait(lock, [this] { return waiting_.size() < max_waiting; });
      waiting_.emplace_back(work);
    }
    loop_.notify();
  }

  std::optional<std::uint64_t> wakeups() const { return std::nullopt; }

 private:
  void run_posted() {
    {
      const std::lock_guard lock(mutex_);
      waiting_.swap(running_);
    }
    if (running_.size() == max_waiting) has_space_.notify_all();
    for (auto& work : running_) work();
    running_.clear();
  }

  static constexpr std::size_t max_waiting = std::size_t{1} << 14;

  std::mutex mutex_;
  std::condition_variable has_space_;
  std::vector<std::function<void()>> waiting_;  // guarded by mutex_
  std::vector<std::function<void()>> running_;
  lab::libuv_loop loop_{[this] { run_posted(); }};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::post_task::contender_main<libuv_loop>(argc, argv, {{"libuv", uv_version_string()}});
}
