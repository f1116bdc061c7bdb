// SPDX-License-Identifier: Apache-2.0
// folly: coro::Task<int>, collectAllRange and blockingWait, as in the published experiment. The
// loop is an EventBase that blockingWait drives on this thread.
#include <lab/experiments/coroutine_collect_all/workload.hpp>

#include <folly/coro/BlockingWait.h>
#include <folly/coro/Collect.h>
#include <folly/coro/CurrentExecutor.h>
#include <folly/coro/Task.h>
#include <folly/io/async/EventBase.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace {

struct runtime {
  template <class T>
  using task = folly::coro::Task<T>;
};

folly::coro::Task<std::uint64_t> sum_of(std::vector<folly::coro::Task<int>> chains) {
  const std::vector<int> values = co_await folly::coro::collectAllRange(std::move(chains));
  std::uint64_t sum = 0;
  for (const int each : values) sum += static_cast<std::uint64_t>(each);
  co_return sum;
}

struct inline_collector {
  std::uint64_t collect(std::uint32_t tasks) {
    return folly::coro::blockingWait(
        sum_of(lab::coroutine_collect_all::make_tasks<runtime>(tasks)));
  }
};

folly::coro::Task<int> posted_chain() {
  co_await folly::coro::co_reschedule_on_current_executor;
  co_return co_await lab::coroutine_chain::link<runtime, lab::coroutine_collect_all::links>();
}

class loop_collector {
 public:
  std::uint64_t collect(std::uint32_t tasks) {
    std::vector<folly::coro::Task<int>> chains;
    for (std::uint32_t i = 0; i < tasks; ++i) chains.push_back(posted_chain());
    return folly::coro::blockingWait(sum_of(std::move(chains)), &loop_);
  }

 private:
  folly::EventBase loop_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_collect_all::contender_main<inline_collector, loop_collector>(argc, argv);
}
