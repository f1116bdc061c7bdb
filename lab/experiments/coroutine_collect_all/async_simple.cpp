// SPDX-License-Identifier: Apache-2.0
// async_simple: Lazy<int>, collectAllPara and syncAwait, as in the published experiment. The loop
// is its thread pool with one thread, the pool the same with several.
#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <async_simple/coro/Collect.h>
#include <async_simple/coro/Lazy.h>
#include <async_simple/coro/SyncAwait.h>
#include <async_simple/executors/SimpleExecutor.h>

#include <cstdint>
#include <utility>

namespace {

struct runtime {
  template <class T>
  using task = async_simple::coro::Lazy<T>;
};

runtime::task<std::uint64_t> collect_all(std::uint32_t tasks) {
  auto chains = lab::coroutine_collect_all::make_tasks<runtime>(tasks);
  const auto values = co_await async_simple::coro::collectAllPara(std::move(chains));
  std::uint64_t sum = 0;
  for (const auto& each : values) sum += static_cast<std::uint64_t>(each.value());
  co_return sum;
}

struct inline_collector {
  std::uint64_t collect(std::uint32_t tasks) {
    return async_simple::coro::syncAwait(collect_all(tasks));
  }
};

template <int Threads>
class pool_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    return async_simple::coro::syncAwait(collect_all(tasks), &threads_);
  }

 private:
  async_simple::executors::SimpleExecutor threads_{Threads};
};

}  // namespace

int main(int argc, char** argv) {
  namespace experiment = lab::coroutine_collect_all;
  return experiment::contender_main<inline_collector, pool_collector<1>,
                                    pool_collector<experiment::pool_threads>>(argc, argv);
}
