// SPDX-License-Identifier: Apache-2.0
// libcoro: mutex. Its unlock() runs the next holder inside itself, on the thread that unlocks, so a
// contended lock is not comparable there, and is not measured.
#include <lab/experiments/sync/workload.hpp>

#include <coro/mutex.hpp>
#include <coro/sync_wait.hpp>
#include <coro/task.hpp>

#include <cstdint>

namespace {

using lab::sync::job;

class libcoro_lock {
 public:
  void run_alone(const job& work) { coro::sync_wait(do_job(work)); }

 private:
  coro::task<> do_job(job work) {
    for (std::uint64_t i = 0; i < work.locks; ++i) {
      const auto guard = co_await mutex_.scoped_lock();
      work.shared.enter(work.name);
      work.shared.leave(work.name);
    }
  }

  coro::mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) { return lab::sync::contender_main<libcoro_lock>(argc, argv); }
