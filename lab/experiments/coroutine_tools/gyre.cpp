// SPDX-License-Identifier: Apache-2.0
// gyre: oneshot, interval, join_set and strand.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/strand.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/sync/join_set.hpp>
#include <gyre/sync/oneshot.hpp>
#include <gyre/task/interval.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <lab/experiments/coroutine_tools/workload.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace {

gyre::task<std::uint64_t> ask(gyre::loop& loop, std::uint64_t count) {
  std::uint64_t sum = 0;
  for (std::uint64_t number = 1; number <= count; ++number) {
    auto [reply, answer] = gyre::make_oneshot<std::uint64_t>();
    loop.post([to = std::move(reply), number]() mutable { to.send(number); });
    const std::optional<std::uint64_t> received = co_await answer.receive();
    sum += received.value_or(0);
  }
  co_return sum;
}

gyre::task<std::uint64_t> tick(std::uint64_t count) {
  gyre::interval every(std::chrono::nanoseconds(1), {.missed = gyre::missed_ticks::burst});
  std::uint64_t ticks = 0;
  for (; ticks < count; ++ticks) co_await every.tick();
  co_return ticks;
}

gyre::task<std::uint64_t> finish(std::uint64_t number) {
  co_await gyre::yield();
  co_return number;
}

gyre::task<std::uint64_t> join(gyre::scope& scope, std::uint64_t count) {
  gyre::join_set<std::uint64_t> tasks(scope);
  std::uint64_t sum = 0;
  for (std::uint64_t started = 0; started < count;) {
    const std::uint64_t batch = std::min(count - started, lab::coroutine_tools::tasks_in_set);
    for (std::uint64_t each = 0; each < batch; ++each) tasks.spawn(finish(++started));
    for (std::uint64_t each = 0; each < batch; ++each) {
      const std::optional<std::uint64_t> finished = co_await tasks.next();
      sum += finished.value_or(0);
    }
  }
  co_return sum;
}

gyre::task<> visit(gyre::thread_pool& pool, gyre::strand& strand, std::uint64_t count,
                   std::uint64_t& number) {
  co_await gyre::resume_on(pool);
  for (std::uint64_t visits = 0; visits < count; ++visits) {
    co_await gyre::schedule(strand);
    ++number;
    co_await gyre::schedule(pool);
  }
}

class gyre_tools {
 public:
  static std::uint64_t oneshots(std::uint64_t count) {
    gyre::loop loop;
    return gyre::sync_wait(loop, ask(loop, count));
  }
  static std::uint64_t ticks(std::uint64_t count) {
    gyre::loop loop;
    return gyre::sync_wait(loop, tick(count));
  }
  static std::uint64_t joins(std::uint64_t count) {
    gyre::loop loop;
    return gyre::sync_wait(
        loop, gyre::with_scope([count](gyre::scope& scope) { return join(scope, count); }));
  }
  static std::uint64_t visits(std::uint64_t count) {
    gyre::thread_pool pool(2);
    gyre::strand strand(pool);
    std::uint64_t number = 0;
    std::vector<gyre::task<>> all;
    for (std::uint64_t visitor = 0; visitor < lab::coroutine_tools::visitors; ++visitor) {
      const std::uint64_t before = count * visitor / lab::coroutine_tools::visitors;
      const std::uint64_t until = count * (visitor + 1) / lab::coroutine_tools::visitors;
      all.push_back(visit(pool, strand, until - before, number));
    }
    gyre::sync_wait(gyre::when_all(std::move(all)));
    return number;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return lab::coroutine_tools::contender_main<gyre_tools>(argc, argv);
}
