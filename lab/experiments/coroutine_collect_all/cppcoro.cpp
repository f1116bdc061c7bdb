// SPDX-License-Identifier: Apache-2.0
// cppcoro: task<int>, when_all and sync_wait, as in the published experiment. The loop is its
// io_service, which this thread runs, the pool its static_thread_pool, one of whose threads makes
// and collects the tasks.
#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <cppcoro/io_service.hpp>
#include <cppcoro/schedule_on.hpp>
#include <cppcoro/static_thread_pool.hpp>
#include <cppcoro/sync_wait.hpp>
#include <cppcoro/task.hpp>
#include <cppcoro/when_all.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct runtime {
  template <class T>
  using task = cppcoro::task<T>;
};

std::uint64_t sum_of(const std::vector<int>& values) {
  std::uint64_t sum = 0;
  for (const int each : values) sum += static_cast<std::uint64_t>(each);
  return sum;
}

struct inline_collector {
  std::uint64_t collect(std::uint32_t tasks) { return cppcoro::sync_wait(collect_all(tasks)); }

  static cppcoro::task<std::uint64_t> collect_all(std::uint32_t tasks) {
    auto chains = lab::coroutine_collect_all::make_tasks<runtime>(tasks);
    const std::vector<int> values = co_await cppcoro::when_all(std::move(chains));
    co_return sum_of(values);
  }
};

class loop_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    loop_.reset();
    auto [sum, none] = cppcoro::sync_wait(cppcoro::when_all(collect_all(tasks), run()));
    return sum;
  }

 private:
  cppcoro::task<int> run() {
    loop_.process_events();
    co_return 0;
  }

  cppcoro::task<std::uint64_t> collect_all(std::uint32_t tasks) {
    std::vector<cppcoro::task<int>> chains;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      chains.push_back(cppcoro::schedule_on(
          loop_, lab::coroutine_chain::link<runtime, lab::coroutine_collect_all::links>()));
    }
    const std::vector<int> values = co_await cppcoro::when_all(std::move(chains));
    loop_.stop();
    co_return sum_of(values);
  }

  cppcoro::io_service loop_;
};

class pool_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    return cppcoro::sync_wait(cppcoro::schedule_on(pool_, collect_all(tasks)));
  }

 private:
  cppcoro::task<std::uint64_t> collect_all(std::uint32_t tasks) {
    std::vector<cppcoro::task<int>> chains;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      chains.push_back(cppcoro::schedule_on(
          pool_, lab::coroutine_chain::link<runtime, lab::coroutine_collect_all::links>()));
    }
    const std::vector<int> values = co_await cppcoro::when_all(std::move(chains));
    co_return sum_of(values);
  }

  cppcoro::static_thread_pool pool_{lab::coroutine_collect_all::pool_threads};
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_collect_all::contender_main<inline_collector, loop_collector,
                                                    pool_collector>(argc, argv);
}
