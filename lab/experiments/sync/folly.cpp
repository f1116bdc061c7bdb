// SPDX-License-Identifier: Apache-2.0
// folly: coro::Mutex, between tasks that blockingWait drives on an EventBase.
#include <lab/experiments/sync/workload.hpp>

#include <folly/coro/BlockingWait.h>
#include <folly/coro/Collect.h>
#include <folly/coro/CurrentExecutor.h>
#include <folly/coro/Mutex.h>
#include <folly/coro/Task.h>
#include <folly/io/async/EventBase.h>

#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace {

using lab::sync::job;

class folly_lock {
 public:
  void run_alone(const job& work) { run(loop_, {&work, 1}); }
  void run_on_one_loop(std::span<const job> work) { run(loop_, work); }
  void run_on_two_loops(std::span<const job> work) {
    const std::jthread other([&] { run(other_loop_, work.subspan(work.size() / 2)); });
    run(loop_, work.first(work.size() / 2));
  }

 private:
  void run(folly::EventBase& loop, std::span<const job> work) {
    std::vector<folly::coro::Task<void>> tasks;
    for (const job& each : work) tasks.push_back(do_job(each));
    folly::coro::blockingWait(folly::coro::collectAllRange(std::move(tasks)), &loop);
  }

  folly::coro::Task<void> do_job(job work) {
    work.shared.begin_task();
    for (std::uint64_t i = 0; i < work.locks; ++i) {
      const auto guard = co_await mutex_.co_scoped_lock();
      work.shared.enter(work.name);
      while (work.shared.awaits_tasks()) co_await folly::coro::co_reschedule_on_current_executor;
      work.shared.leave(work.name);
    }
  }

  folly::EventBase loop_;
  folly::EventBase other_loop_;
  folly::coro::Mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) { return lab::sync::contender_main<folly_lock>(argc, argv); }
