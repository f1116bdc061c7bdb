// SPDX-License-Identifier: Apache-2.0
// gyre: task<int>, when_all and sync_wait, which also runs the loop. On the work-stealing pool, one
// worker makes and collects the tasks, and the other steals from it.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct runtime {
  template <class T>
  using task = gyre::task<T>;
};

gyre::task<std::uint64_t> sum_of(std::vector<gyre::task<int>> chains) {
  const std::vector<int> values = co_await gyre::when_all(std::move(chains));
  std::uint64_t sum = 0;
  for (const int each : values) sum += static_cast<std::uint64_t>(each);
  co_return sum;
}

struct inline_collector {
  std::uint64_t collect(std::uint32_t tasks) {
    return gyre::sync_wait(sum_of(lab::coroutine_collect_all::make_tasks<runtime>(tasks)));
  }
};

gyre::task<int> posted_chain(gyre::loop& loop) {
  co_await gyre::schedule(loop);
  co_return co_await lab::coroutine_chain::link<runtime, lab::coroutine_collect_all::links>();
}

class loop_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    std::vector<gyre::task<int>> chains;
    for (std::uint32_t i = 0; i < tasks; ++i) chains.push_back(posted_chain(loop_));
    return gyre::sync_wait(loop_, sum_of(std::move(chains)));
  }

 private:
  gyre::loop loop_;
};

gyre::task<std::uint64_t> collect_all(std::uint32_t tasks) {
  co_return co_await sum_of(lab::coroutine_collect_all::make_tasks<runtime>(tasks));
}

class pool_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    return gyre::sync_wait(gyre::on(pool_, collect_all(tasks)));
  }

 private:
  gyre::thread_pool pool_{std::size_t{lab::coroutine_collect_all::pool_threads}};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_collect_all::contender_main<inline_collector, loop_collector,
                                                    pool_collector>(argc, argv);
}
