// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/task_local.hpp>

#include <gyre/task/async_generator.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace task_local_test {
namespace {

using gyre::sync_wait;
using gyre::task;

const gyre::task_local<int> number;
const gyre::task_local<std::string> name{"nobody"};

task<int> read_number() {
  const int& value = co_await number.get();
  co_return value;
}
task<int> read_below() { co_return co_await read_number(); }

TEST(TaskLocal, IsTheDefaultWhereNothingIsBound) {
  EXPECT_EQ(sync_wait(read_number()), 0);
  EXPECT_EQ(sync_wait(name.get()), "nobody");
  EXPECT_EQ(sync_wait(number.find()), nullptr);
}

TEST(TaskLocal, IsSeenBelowAndNotAfter) {
  sync_wait([]() -> task<> {
    const int within = co_await number.with(7, read_below());
    EXPECT_EQ(within, 7);
    const int after = co_await read_below();
    EXPECT_EQ(after, 0);
  }());
}

TEST(TaskLocal, InnermostWins) {
  auto rebind = []() -> task<int> {
    const int inner = co_await number.with(2, read_below());
    const int again = co_await read_below();
    co_return 10 * inner + again;
  };
  EXPECT_EQ(sync_wait(number.with(1, rebind())), 21);
}

TEST(TaskLocal, KeysDoNotMix) {
  auto both = []() -> task<std::string> {
    const std::string& who = co_await name.get();
    const int& count = co_await number.get();
    co_return who + std::to_string(count);
  };
  EXPECT_EQ(sync_wait(name.with("a", number.with(3, both()))), "a3");
}

TEST(TaskLocal, BindsForAnythingThatCanBeAwaited) {
  EXPECT_EQ(sync_wait(number.with(5, read_number())), 5);
  auto find = number.find();
  EXPECT_NE(sync_wait(number.with(5, find)), nullptr);
  sync_wait(number.with(5, gyre::yield()));
}

TEST(TaskLocal, IsUnboundWhenTheAwaitThrows) {
  sync_wait([]() -> task<> {
    auto fail = []() -> task<> {
      throw std::runtime_error("broken");
      co_return;
    };
    bool thrown = false;
    try {
      co_await number.with(7, fail());
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    const int* bound = co_await number.find();
    EXPECT_EQ(bound, nullptr);
  }());
}

TEST(TaskLocal, IsUnboundWhenTheAwaitCannotBegin) {
  sync_wait([]() -> task<> {
    bool thrown = false;
    try {
      co_await number.with(7, task<>());
    } catch (const std::logic_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    const int* bound = co_await number.find();
    EXPECT_EQ(bound, nullptr);
  }());
}

TEST(TaskLocal, HoldsWhatCanOnlyBeMoved) {
  const gyre::task_local<std::unique_ptr<int>> key;
  auto read = [](const gyre::task_local<std::unique_ptr<int>>& of) -> task<int> {
    const std::unique_ptr<int>& held = co_await of.get();
    co_return *held;
  };
  EXPECT_EQ(sync_wait(key.with(std::make_unique<int>(4), read(key))), 4);
}

TEST(TaskLocal, GoesWithItsCoroutineToOtherExecutors) {
  gyre::test::thread_executor there;
  auto hop = [](gyre::executor& to) -> task<int> {
    co_await gyre::resume_on(to);
    co_return co_await read_below();
  };
  EXPECT_EQ(sync_wait(number.with(9, hop(there))), 9);
}

TEST(TaskLocal, LeavesItsCoroutineWhereItWent) {
  gyre::test::thread_executor there;
  const bool moved = sync_wait([](gyre::executor& to) -> task<bool> {
    co_await number.with(9, gyre::resume_on(to));
    gyre::executor& here = co_await gyre::current_executor();
    co_return &here == &to&& to.running_here();
  }(there));
  EXPECT_TRUE(moved);
}

TEST(TaskLocal, IsInheritedByChildrenThatRunBesideEachOther) {
  gyre::test::thread_executor there;
  auto parent = [](gyre::executor& elsewhere) -> task<int> {
    auto [a, b, c] = co_await gyre::when_all(read_below(), gyre::on(elsewhere, read_below()),
                                             number.with(1, read_below()));
    co_return 100 * a + 10 * b + c;
  };
  EXPECT_EQ(sync_wait(number.with(4, parent(there))), 441);
}

TEST(TaskLocal, IsNotInheritedByWhatIsDetached) {
  gyre::testing::manual_executor loop;
  int seen = -1;
  auto read_into = [](int& to) -> task<> { to = co_await read_number(); };
  auto detach = [&](int& to) -> task<> {
    gyre::spawn(loop, read_into(to));
    co_return;
  };
  sync_wait(number.with(7, detach(seen)));
  loop.run_all();
  EXPECT_EQ(seen, 0);
}

TEST(TaskLocal, AGeneratorSeesTheValueOfItsConsumer) {
  auto make = []() -> gyre::async_generator<int> {
    for (;;) {
      const int value = co_await read_number();
      co_yield value;
    }
  };
  sync_wait([](gyre::async_generator<int> values) -> task<> {
    const int* bound = co_await number.with(3, values.next());
    EXPECT_EQ(*bound, 3);
    const int* unbound = co_await values.next();
    EXPECT_EQ(*unbound, 0);
  }(make()));
}

TEST(TaskLocal, AMillionBindingsInARowRunInConstantStack) {
  EXPECT_EQ(sync_wait([]() -> task<long> {
              long sum = 0;
              for (int i = 0; i < 1'000'000; ++i) {
                const int& value = co_await number.with(1, number.get());
                sum += value;
              }
              co_return sum;
            }()),
            1'000'000);
}

}  // namespace
}  // namespace task_local_test
