// SPDX-License-Identifier: Apache-2.0
// cppcoro: async_mutex. Its unlock() runs the next holder inside itself, on the thread that
// unlocks, so a contended lock is not comparable there, and is not measured.
#include <lab/experiments/sync/workload.hpp>

#include <cppcoro/async_mutex.hpp>
#include <cppcoro/sync_wait.hpp>
#include <cppcoro/task.hpp>

#include <cstdint>

namespace {

using lab::sync::job;

class cppcoro_lock {
 public:
  void run_alone(const job& work) { cppcoro::sync_wait(do_job(work)); }

 private:
  cppcoro::task<> do_job(job work) {
    for (std::uint64_t i = 0; i < work.locks; ++i) {
      const auto guard = co_await mutex_.scoped_lock_async();
      work.shared.enter(work.name);
      work.shared.leave(work.name);
    }
  }

  cppcoro::async_mutex mutex_;
};

}  // namespace

int main(int argc, char** argv) { return lab::sync::contender_main<cppcoro_lock>(argc, argv); }
