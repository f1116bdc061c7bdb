// SPDX-License-Identifier: Apache-2.0
// folly: a promise contract as a oneshot, AsyncScope with a queue of the results, and tasks on a
// SerialExecutor. folly has no interval.
#include <lab/experiments/coroutine_tools/workload.hpp>

#include <folly/coro/AsyncScope.h>
#include <folly/coro/BlockingWait.h>
#include <folly/coro/Collect.h>
#include <folly/coro/CurrentExecutor.h>
#include <folly/coro/Promise.h>
#include <folly/coro/Task.h>
#include <folly/coro/UnboundedQueue.h>
#include <folly/executors/CPUThreadPoolExecutor.h>
#include <folly/executors/SerialExecutor.h>
#include <folly/io/async/EventBase.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using results_queue = folly::coro::UnboundedQueue<std::uint64_t, true, true>;

folly::coro::Task<std::uint64_t> ask(folly::EventBase& loop, std::uint64_t count) {
  std::uint64_t sum = 0;
  for (std::uint64_t number = 1; number <= count; ++number) {
    auto [reply, answer] = folly::coro::makePromiseContract<std::uint64_t>();
    loop.add([to = std::move(reply), number]() mutable { to.setValue(number); });
    sum += co_await std::move(answer);
  }
  co_return sum;
}

folly::coro::Task<void> finish(results_queue& results, std::uint64_t number) {
  co_await folly::coro::co_reschedule_on_current_executor;
  results.enqueue(number);
}

folly::coro::Task<std::uint64_t> join(folly::EventBase& loop, std::uint64_t count) {
  folly::coro::AsyncScope tasks;
  results_queue results;
  std::uint64_t sum = 0;
  for (std::uint64_t started = 0; started < count;) {
    const std::uint64_t batch = std::min(count - started, lab::coroutine_tools::tasks_in_set);
    for (std::uint64_t each = 0; each < batch; ++each) {
      tasks.add(folly::coro::co_withExecutor(&loop, finish(results, ++started)));
    }
    for (std::uint64_t each = 0; each < batch; ++each) sum += co_await results.dequeue();
  }
  co_await tasks.joinAsync();
  co_return sum;
}

folly::coro::Task<void> increment(std::uint64_t& number) {
  ++number;
  co_return;
}

folly::coro::Task<void> visit(folly::Executor::KeepAlive<> strand, std::uint64_t count,
                              std::uint64_t& number) {
  for (std::uint64_t visits = 0; visits < count; ++visits) {
    co_await folly::coro::co_withExecutor(strand, increment(number));
  }
}

class folly_tools {
 public:
  static std::uint64_t oneshots(std::uint64_t count) {
    folly::EventBase loop;
    return folly::coro::blockingWait(ask(loop, count), &loop);
  }
  static std::uint64_t joins(std::uint64_t count) {
    folly::EventBase loop;
    return folly::coro::blockingWait(join(loop, count), &loop);
  }
  static std::uint64_t visits(std::uint64_t count) {
    folly::CPUThreadPoolExecutor pool(2);
    auto strand = folly::SerialExecutor::create(folly::getKeepAliveToken(pool));
    std::uint64_t number = 0;
    std::vector<folly::coro::TaskWithExecutor<void>> all;
    for (std::uint64_t visitor = 0; visitor < lab::coroutine_tools::visitors; ++visitor) {
      const std::uint64_t before = count * visitor / lab::coroutine_tools::visitors;
      const std::uint64_t until = count * (visitor + 1) / lab::coroutine_tools::visitors;
      all.push_back(folly::coro::co_withExecutor(folly::getKeepAliveToken(pool),
                                                 visit(strand.copy(), until - before, number)));
    }
    folly::coro::blockingWait(folly::coro::collectAllRange(std::move(all)));
    return number;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_tools::contender_main<folly_tools>(argc, argv);
}
