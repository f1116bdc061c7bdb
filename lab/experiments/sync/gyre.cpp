// SPDX-License-Identifier: Apache-2.0
// gyre: mutex, whose unlock() hands it to the task that has waited longest.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <lab/experiments/sync/workload.hpp>

#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace {

using lab::sync::job;

class gyre_lock {
 public:
  void run_alone(const job& work) { run(loop_, {&work, 1}); }
  void run_on_one_loop(std::span<const job> work) { run(loop_, work); }
  void run_on_two_loops(std::span<const job> work) {
    const std::jthread other([&] { run(other_loop_, work.subspan(work.size() / 2)); });
    run(loop_, work.first(work.size() / 2));
  }

 private:
  void run(gyre::loop& loop, std::span<const job> work) {
    std::vector<gyre::task<>> tasks;
    for (const job& each : work) tasks.push_back(do_job(each));
    gyre::sync_wait(loop, gyre::when_all(std::move(tasks)));
  }

  gyre::task<> do_job(job work) {
    work.shared.begin_task();
    for (std::uint64_t i = 0; i < work.locks; ++i) {
      const auto guard = co_await mutex_.lock();
      work.shared.enter(work.name);
      while (work.shared.awaits_tasks()) co_await gyre::yield();
      work.shared.leave(work.name);
    }
  }

  gyre::loop loop_;
  gyre::loop other_loop_;
  gyre::mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) { return lab::sync::contender_main<gyre_lock>(argc, argv); }
