// SPDX-License-Identifier: Apache-2.0
// libcoro: task<int>, when_all and sync_wait. The loop is its thread pool with one thread, the
// pool the same with several. A thread of the pool makes and collects the tasks.
#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <coro/sync_wait.hpp>
#include <coro/task.hpp>
#include <coro/thread_pool.hpp>
#include <coro/when_all.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace {

struct runtime {
  template <class T>
  using task = coro::task<T>;
};

coro::task<std::uint64_t> sum_of(std::vector<coro::task<int>> chains) {
  auto finished = co_await coro::when_all(std::move(chains));
  std::uint64_t sum = 0;
  for (auto& each : finished) sum += static_cast<std::uint64_t>(each.return_value());
  co_return sum;
}

struct inline_collector {
  std::uint64_t collect(std::uint32_t tasks) {
    return coro::sync_wait(sum_of(lab::coroutine_collect_all::make_tasks<runtime>(tasks)));
  }
};

template <int Threads>
class pool_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    return coro::sync_wait(threads_->schedule(collect_all(tasks)));
  }

 private:
  coro::task<std::uint64_t> collect_all(std::uint32_t tasks) {
    std::vector<coro::task<int>> chains;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      chains.push_back(threads_->schedule(
          lab::coroutine_chain::link<runtime, lab::coroutine_collect_all::links>()));
    }
    co_return co_await sum_of(std::move(chains));
  }

  std::unique_ptr<coro::thread_pool> threads_ =
      coro::thread_pool::make_unique({.thread_count = Threads});
};

}  // namespace

int main(int argc, char** argv) {
  namespace experiment = lab::coroutine_collect_all;
  return experiment::contender_main<inline_collector, pool_collector<1>,
                                    pool_collector<experiment::pool_threads>>(argc, argv);
}
