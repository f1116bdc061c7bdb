// SPDX-License-Identifier: Apache-2.0
// Tests of scopes, in virtual time and on threads.
#include <gyre/task/scope.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace scope_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::scope;
using gyre::scope_errors;
using gyre::sleep_for;
using gyre::sync_wait;
using gyre::task;
using gyre::with_scope;
using gyre::test::counts;
using gyre::test::error_of;
using gyre::test::message_of;
using gyre::test::sleeps;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;
using gyre::testing::run_in_virtual_time;

task<> fails(const char* what) {
  throw std::runtime_error(what);
  co_return;
}

using Scope = gyre::test::in_virtual_time;

TEST_F(Scope, EndsWhenItsTasksHave) {
  run(with_scope([this](scope& here) -> task<> {
    here.spawn(sleeps(2s, ended_));
    here.spawn(sleeps(1s, ended_));
    EXPECT_EQ(here.size(), 2);
    co_return;
  }));
  EXPECT_EQ(ended_, 2);
  EXPECT_GE(elapsed(), 2s);
}

TEST_F(Scope, GivesWhatItsBodyGives) {
  EXPECT_EQ(*run(with_scope([this](scope& here) -> task<std::unique_ptr<int>> {
    here.spawn(sleeps(1s, ended_));
    co_return std::make_unique<int>(5);
  })),
            5);
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(&run(with_scope([this](scope&) -> task<int&> { co_return ended_; })), &ended_);
}

TEST_F(Scope, AnEmptyScopeEndsAtOnce) {
  EXPECT_EQ(sync_wait(with_scope([](scope&) -> task<int> { co_return 1; })), 1);
}

TEST_F(Scope, KeepsItsBodyAlive) {
  auto text = std::make_shared<std::string>("captured");
  const std::weak_ptr<std::string> watched = text;
  auto work = with_scope([text = std::move(text)](scope& here) -> task<> {
    here.spawn([](const std::string& referred) -> task<> {
      co_await sleep_for(1s);
      EXPECT_EQ(referred, "captured");
    }(*text));
    co_await gyre::yield();
    EXPECT_EQ(*text, "captured");
  });
  run(std::move(work));
  EXPECT_TRUE(watched.expired());
}

TEST_F(Scope, StartsTasksInOrderAfterSpawnReturns) {
  std::vector<int> order;
  run(with_scope([&order](scope& here) -> task<> {
    for (int i = 1; i < 4; ++i) {
      here.spawn([](std::vector<int>& to, int number) -> task<> {
        to.push_back(number);
        co_return;
      }(order, i));
    }
    order.push_back(0);
    co_return;
  }));
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST_F(Scope, TakesAwaitablesAndDropsTheirResults) {
  run(with_scope([](scope& here) -> task<> {
    here.spawn(sleep_for(1s));
    here.spawn([]() -> task<std::string> { co_return "dropped"; }());
    co_return;
  }));
  EXPECT_GE(elapsed(), 1s);
}

TEST_F(Scope, TasksMaySpawnToo) {
  run(with_scope([this](scope& here) -> task<> {
    here.spawn([](scope& same, int& ended) -> task<> {
      co_await sleep_for(1s);
      same.spawn(sleeps(1s, ended));
    }(here, ended_));
    co_return;
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_GE(elapsed(), 2s);
}

TEST_F(Scope, FirstErrorStopsTheOthersAndIsThrown) {
  const auto work = [this] {
    run(with_scope([this](scope& here) -> task<> {
      here.spawn(sleeps(1h, ended_));
      here.spawn(fails("first"));
      here.spawn(fails("second"));
      co_await sleeps(1h, ended_);  // the body is stopped too
    }));
  };
  EXPECT_EQ(message_of(work), "first");
  EXPECT_EQ(ended_, 2);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(Scope, ErrorOfTheBodyStopsTheTasks) {
  const auto work = [this] {
    run(with_scope([this](scope& here) -> task<> {
      here.spawn(sleeps(1h, ended_));
      co_await gyre::yield();
      throw std::runtime_error("body");
    }));
  };
  EXPECT_EQ(message_of(work), "body");
  EXPECT_EQ(ended_, 1);
}

TEST_F(Scope, BodyThatThrowsBeforeItIsATask) {
  const auto work = [this] {
    run(with_scope([this](scope& here) -> task<> {
      here.spawn(sleeps(1h, ended_));
      throw std::runtime_error("no coroutine");
    }));
  };
  EXPECT_EQ(message_of(work), "no coroutine");
  EXPECT_EQ(ended_, 1);
}

TEST_F(Scope, CollectsAllErrorsIfToldTo) {
  try {
    run(with_scope(
        [this](scope& here) -> task<> {
          here.spawn(fails("first"));
          here.spawn(sleeps(1s, ended_));
          here.spawn(fails("second"));
          co_await sleep_for(2s);
          throw std::runtime_error("third");
        },
        scope_errors::collect));
    ADD_FAILURE() << "did not throw";
  } catch (const gyre::scope_error& error) {
    std::vector<std::string> messages;
    for (const std::exception_ptr& each : error.errors()) {
      messages.push_back(message_of([&] { std::rethrow_exception(each); }));
    }
    EXPECT_EQ(messages, (std::vector<std::string>{"first", "second", "third"}));
  }
  EXPECT_EQ(ended_, 1);
  EXPECT_GE(elapsed(), 2s);
}

TEST_F(Scope, StoppedByItselfHasNotFailed) {
  run(with_scope([this](scope& here) -> task<> {
    here.spawn(sleeps(1h, ended_));
    co_await sleep_for(1s);
    EXPECT_TRUE(here.request_stop());
    EXPECT_FALSE(here.request_stop());
    EXPECT_TRUE(here.get_token().stop_requested());
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_LT(elapsed(), 1min);
}

TEST_F(Scope, StoppedByATaskEndsTheBody) {
  run(with_scope([this](scope& here) -> task<> {
    here.spawn([](scope& same) -> task<> {
      same.request_stop();
      co_return;
    }(here));
    co_await sleeps(1h, ended_);
  }));
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(error_of([this] {
              run(with_scope([this](scope& here) -> task<int> {
                here.request_stop();
                co_await sleeps(1h, ended_);
                co_return 1;
              }));
            }),
            std::errc::operation_canceled)
      << "there is no value to give";
}

TEST_F(Scope, IsStoppedWithTheCoroutineThatAwaitsIt) {
  EXPECT_EQ(error_of([this] {
              run(gyre::with_timeout(with_scope([this](scope& here) -> task<> {
                                       here.spawn(sleeps(1h, ended_));
                                       co_return;
                                     }),
                                     1s));
            }),
            std::errc::timed_out);
  EXPECT_EQ(ended_, 1);
}

TEST_F(Scope, StartsTasksAfterTheStopWithAStoppedToken) {
  bool started = false;
  run(with_scope([&started](scope& here) -> task<> {
    here.request_stop();
    here.spawn([](bool& told) -> task<> {
      const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
      told = token.stop_requested();
    }(started));
    co_return;
  }));
  EXPECT_TRUE(started);
}

TEST_F(Scope, SpawnOfAnEmptyTaskIsAnError) {
  EXPECT_THROW(run(with_scope([](scope& here) -> task<> {
                 here.spawn(task<>());
                 co_return;
               })),
               std::logic_error);
}

TEST_F(Scope, DoesNotGrowWithTheTasksThatHaveEnded) {
  std::size_t most = 0;
  const std::size_t before = gyre::read_slab_stats().blocks_in_use;
  run(with_scope([&most](scope& here) -> task<> {
    for (int i = 0; i < 20'000; ++i) {
      here.spawn([]() -> task<> { co_return; }());
      co_await gyre::yield();
      most = std::max(most, gyre::read_slab_stats().blocks_in_use);
      if (i == 100) most = 0;
    }
  }));
  EXPECT_LT(most, before + 1000);
}

TEST_F(Scope, RunsTasksOnOtherExecutors) {
  thread_executor one;
  thread_executor other;
  thread_executor home;
  std::atomic<int> ran = 0;
  sync_wait(gyre::on(home, [](auto& first, auto& second, auto& own, auto& count) -> task<> {
    for (int round = 0; round < 100; ++round) {
      auto body = [&](scope& here) -> task<> {
        for (int i = 0; i < 5; ++i) {
          here.spawn(first, counts(count));
          here.spawn(second, counts(count));
          here.spawn(counts(count));
        }
        co_return;
      };
      co_await with_scope(std::move(body));
      EXPECT_TRUE(own.running_here());
    }
  }(one, other, home, ran)));
  EXPECT_EQ(ran, 1500);
}

TEST_F(Scope, SpawnsFromOtherThreads) {
  thread_executor other;
  std::atomic<int> ran = 0;
  sync_wait(with_scope([&](scope& here) -> task<> {
    const auto spawner = [](scope& same, gyre::executor& on, std::atomic<int>& count) -> task<> {
      for (int i = 0; i < 500; ++i) same.spawn(on, counts(count));
      co_return;
    };
    gyre::executor& home = co_await gyre::current_executor();
    here.spawn(other, spawner(here, home, ran));
    here.spawn(spawner(here, other, ran));
  }));
  EXPECT_EQ(ran, 1000);
}

TEST_F(Scope, ErrorsStopsAndEndsRaceOnSeveralThreads) {
  thread_executor one;
  thread_executor other;
  for (int round = 0; round < 300; ++round) {
    inplace_stop_source source;
    std::jthread stopper([&] { source.request_stop(); });
    std::atomic<int> ran = 0;
    const std::string error = message_of([&] {
      sync_wait(with_scope([&](scope& here) -> task<> {
                  here.spawn(one, fails("failed"));
                  here.spawn(other, counts(ran));
                  here.spawn(one, counts(ran));
                  here.spawn(other, fails("failed"));
                  co_return;
                }),
                source.get_token());
    });
    EXPECT_EQ(error, "failed");
    EXPECT_EQ(ran, 2);
  }
}

TEST_F(Scope, DestroyedWithItsTasksRunningEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        manual_executor executor;
        gyre::task_context context;
        context.where = &executor;
        task<> work = with_scope([this](scope& here) -> task<> {
          here.spawn(sleeps(1h, ended_));
          co_return;
        });
        gyre::detail::task_access::state(work).start(context);
        executor.run_all();
        work = task<>();
      },
      "with_scope.. was destroyed while tasks of the scope were running");
}

}  // namespace
}  // namespace scope_test
