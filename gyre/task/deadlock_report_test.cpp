// SPDX-License-Identifier: Apache-2.0
// Tests of sync_wait() when nothing can wake its coroutines any more: it names all of them, ends
// them, and throws, whichever object owns them.
#include <gyre/task/sync_wait.hpp>

#include <gyre/task/async_scope.hpp>
#include <gyre/task/collect.hpp>
#include <gyre/task/fork.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace deadlock_report_test {
namespace {

using gyre::scope;
using gyre::sync_wait;
using gyre::task;
using gyre::with_scope;
using gyre::testing::manual_executor;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DeadlockReport : public testing::Test {
 protected:
  void SetUp() override {
    if (!gyre::detail::checks_deadlocks) GTEST_SKIP() << "this build waits for ever";
    if (gyre::test::thread_sanitizer_is_on) {
      GTEST_SKIP() << "ThreadSanitizer's runtime has a thread, which might wake a coroutine";
    }
  }

  // The report; empty if there is none.
  template <gyre::awaitable Work>
  static std::string report_of(Work work) {
    try {
      sync_wait(std::move(work));
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur);
      return error.what();
    }
    return {};
  }

  // The number of coroutines with this guard that were never destroyed.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  [[nodiscard]] long alive() const { return alive_.use_count() - 1; }
};

using life = std::shared_ptr<int>;

// A wait that never ends, and ignores stop requests.
struct forever {
  static constexpr bool await_ready() noexcept { return false; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  static constexpr void await_resume() noexcept {}
};

// Waits until it is asked to stop.
class until_stopped : gyre::detail::resumption {
 public:
  static constexpr bool await_ready() noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> awaiting) {
    waiting = awaiting;
    context_ = &gyre::detail::context_of(awaiting);
    on_stop_.emplace(context_->stop, wake{this});
  }
  static constexpr void await_resume() noexcept {}

 private:
  struct wake {
    until_stopped* self;
    void operator()() const noexcept { self->context_->where->post(*self); }
  };
  const gyre::task_context* context_ = nullptr;
  std::optional<gyre::inplace_stop_callback<wake>> on_stop_;
};

task<> first_to_hang(life) { co_await forever{}; }
task<> second_to_hang(life) { co_await forever{}; }
task<> returns(life) { co_return; }
task<int> hangs_with_a_value(life) {
  co_await forever{};
  co_return 1;
}
task<> hangs_until_stopped(life, bool& stopped) {
  until_stopped wait;
  co_await wait;
  stopped = true;
}

TEST_F(DeadlockReport, NamesTheTasksOfAScope) {
  const std::string report = report_of(with_scope([this](scope& here) -> task<> {
    here.spawn(first_to_hang(alive_), "the first");
    here.spawn(returns(alive_), "the one that ended");
    here.spawn(second_to_hang(alive_));
    co_return;
  }));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("second_to_hang"),
                            HasSubstr("the first"), HasSubstr("deadlock_report_test.cpp:")));
  EXPECT_THAT(report, Not(HasSubstr("the one that ended")));
  EXPECT_EQ(alive(), 0);
}

TEST_F(DeadlockReport, DestroyedTaskMayOwnTheSourceOfItsToken) {
  auto source = std::make_shared<gyre::inplace_stop_source>();
  const gyre::inplace_stop_token token = source->get_token();
  const std::weak_ptr<gyre::inplace_stop_source> observer = source;
  const auto hangs = [](std::shared_ptr<gyre::inplace_stop_source>) -> task<> {
    co_await forever{};
  };
  EXPECT_THROW(sync_wait(hangs(std::move(source)), token), std::system_error);
  EXPECT_TRUE(observer.expired());
}

TEST_F(DeadlockReport, NamesTheTasksOfAScopeWhoseBodyWaitsToo) {
  const std::string report = report_of(with_scope([this](scope& here) -> task<> {
    here.spawn(first_to_hang(alive_));
    co_await second_to_hang(alive_);
  }));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("second_to_hang")));
  EXPECT_EQ(alive(), 0);
}

task<> joins_an_async_scope(life token) {
  gyre::executor& here = co_await gyre::current_executor();
  gyre::async_scope tasks(here);
  tasks.spawn(first_to_hang(token), "the first");
  tasks.spawn(second_to_hang(token));
  co_await tasks.join();
}

TEST_F(DeadlockReport, NamesTheTasksOfAnAsyncScopeThatIsJoined) {
  const std::string report = report_of(joins_an_async_scope(alive_));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("second_to_hang"),
                            HasSubstr("joins_an_async_scope"), HasSubstr("the first")));
  EXPECT_EQ(alive(), 0);
}

// Its destructor reads the object to which it refers.
struct reads_at_end {
  explicit reads_at_end(const std::unique_ptr<int>& from, int& to) : source(from), seen(to) {}
  reads_at_end(const reads_at_end&) = delete;
  reads_at_end& operator=(const reads_at_end&) = delete;
  ~reads_at_end() { seen = *source; }
  const std::unique_ptr<int>& source;
  int& seen;
};
task<> hangs_with(const std::unique_ptr<int>& number, int& seen) {
  const reads_at_end here(number, seen);
  co_await forever{};
}

TEST_F(DeadlockReport, DestroysTheTasksOfAScopeBeforeItsBody) {
  int seen = 0;
  const std::string report = report_of(with_scope([&](scope& here) -> task<> {
    const auto number = std::make_unique<int>(42);
    here.spawn(hangs_with(number, seen));
    co_await first_to_hang(alive_);
  }));
  EXPECT_EQ(seen, 42);
  EXPECT_EQ(alive(), 0);
}

task<> one_of_many(life token, int depth) {
  if (depth == 0) {
    co_await first_to_hang(token);
  } else {
    co_await one_of_many(token, depth - 1);
  }
}
task<> outermost_of_many(life token, int depth) { co_await one_of_many(token, depth); }

TEST_F(DeadlockReport, ShowsTheEndsOfALongChain) {
  const std::string report = report_of(outermost_of_many(alive_, 1000));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("outermost_of_many"),
                            HasSubstr("more awaits")));
  EXPECT_LT(std::ranges::count(report, '\n'), 110);
  EXPECT_EQ(alive(), 0);
}

task<> begins_again(life token) {
  for (;;) {
    try {
      co_await gyre::when_all(first_to_hang(token), second_to_hang(token));
    } catch (...) {
      continue;
    }
  }
}

TEST_F(DeadlockReport, DoesNotWaitForOneThatBeginsAgain) {
  EXPECT_THAT(report_of(begins_again(nullptr)), HasSubstr("begins_again"));
}

task<> opens_a_scope(life token) {
  auto body = [token](scope& inner) -> task<> {
    inner.spawn(second_to_hang(token), "below");
    co_return;
  };
  co_await with_scope(std::move(body));
}

TEST_F(DeadlockReport, NamesTheTasksOfNestedScopesBelowEachOther) {
  const std::string report = report_of(with_scope([this](scope& outer) -> task<> {
    outer.spawn(opens_a_scope(alive_), "above");
    outer.spawn(first_to_hang(alive_));
    co_await opens_a_scope(alive_);
  }));
  EXPECT_THAT(report,
              AllOf(HasSubstr("first_to_hang"), HasSubstr("\n  task \"above\":\n"),
                    HasSubstr("\n    task \"below\":\n"), HasSubstr("\n  task \"below\":\n")));
  EXPECT_EQ(alive(), 0);
}

task<> waits_for_all(life token) {
  co_await gyre::when_all(first_to_hang(token), returns(token), second_to_hang(token));
}

TEST_F(DeadlockReport, NamesTheChildrenOfWhenAll) {
  const std::string report = report_of(waits_for_all(alive_));
  EXPECT_THAT(report, AllOf(HasSubstr("waits_for_all"), HasSubstr("first_to_hang"),
                            HasSubstr("second_to_hang"), Not(HasSubstr("returns"))));
  EXPECT_EQ(alive(), 0);
}

TEST_F(DeadlockReport, NamesTheChildrenOfARangeOfWhenAll) {
  std::vector<task<>> tasks;
  tasks.push_back(first_to_hang(alive_));
  tasks.push_back(opens_a_scope(alive_));
  tasks.push_back(returns(alive_));
  tasks.push_back(waits_for_all(alive_));
  const std::string report = report_of(gyre::when_all(std::move(tasks)));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("opens_a_scope"),
                            HasSubstr("task \"below\""), HasSubstr("waits_for_all")));
  EXPECT_EQ(alive(), 0);
}

TEST_F(DeadlockReport, NamesTheChildrenOfWhenAny) {
  const std::string report =
      report_of(gyre::when_any(first_to_hang(alive_), opens_a_scope(alive_)));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("second_to_hang")));
  EXPECT_EQ(alive(), 0);
}

TEST_F(DeadlockReport, NamesForkedChildrenAlsoBesideAnotherWait) {
  const auto parent = [](life token) -> task<> {
    auto first = co_await gyre::fork(first_to_hang(token));
    auto second = co_await gyre::fork(returns(token));
    co_await second_to_hang(token);
    co_await std::move(first);
    co_await std::move(second);
  };
  const std::string report = report_of(parent(alive_));
  EXPECT_THAT(report, AllOf(HasSubstr("first_to_hang"), HasSubstr("second_to_hang")));
  EXPECT_EQ(alive(), 0);
}

TEST_F(DeadlockReport, NamesTheChildrenThatCollectWaitsFor) {
  std::vector<task<int>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(hangs_with_a_value(alive_));
  const std::string report = report_of(gyre::collect(std::move(tasks), 2));
  EXPECT_THAT(report, HasSubstr("hangs_with_a_value"));
  EXPECT_EQ(alive(), 0);
}

TEST_F(DeadlockReport, EndsWhatHeedsAStopInsteadOfDestroyingIt) {
  bool in_scope = false;
  bool in_all = false;
  const std::string report = report_of(with_scope([&](scope& here) -> task<> {
    here.spawn(hangs_until_stopped(alive_, in_scope));
    co_await gyre::when_all(hangs_until_stopped(alive_, in_all), returns(alive_));
  }));
  EXPECT_THAT(report, HasSubstr("hangs_until_stopped"));
  EXPECT_TRUE(in_scope);
  EXPECT_TRUE(in_all);
  EXPECT_EQ(alive(), 0);
}

// All of the many coroutines must be ended, although the report omits most.
TEST_F(DeadlockReport, IsNoLongerThanSomebodyReads) {
  const std::string report = report_of(with_scope([this](scope& here) -> task<> {
    for (int i = 0; i < 10'000; ++i) here.spawn(first_to_hang(alive_));
    co_return;
  }));
  EXPECT_THAT(report, HasSubstr("more tasks"));
  EXPECT_LT(report.size(), 1'000'000U);
  EXPECT_EQ(alive(), 0);
}

task<> awaits(gyre::shared_task<> work) { co_await work; }
task<> awaits_what_awaits_it(std::optional<gyre::shared_task<>>& itself) { co_await *itself; }

task<> opens_a_scope_until_stopped(life token, bool& stopped) {
  auto body = [&](scope& inner) -> task<> {
    inner.spawn(hangs_until_stopped(std::move(token), stopped), "shared");
    co_return;
  };
  co_await with_scope(body);
}

TEST_F(DeadlockReport, NamesSharedWorkOnceForAllWhoAwaitIt) {
  bool stopped = false;
  gyre::shared_task<> work(opens_a_scope_until_stopped(alive_, stopped));
  const std::string report = report_of(gyre::when_all(awaits(work), awaits(work)));
  EXPECT_THAT(report, HasSubstr("task \"shared\""));
  EXPECT_EQ(report.find("task \"shared\""), report.rfind("task \"shared\""));
  EXPECT_TRUE(stopped);
  work = {};
  EXPECT_EQ(alive(), 0);
}

// Shared work that refers to itself keeps itself alive.
TEST_F(DeadlockReport, NamesSharedWorkThatAwaitsItself) {
  std::optional<gyre::shared_task<>> work;
  work.emplace(awaits_what_awaits_it(work));
  EXPECT_THAT(report_of(awaits(*work)), HasSubstr("awaits_what_awaits_it"));
}

task<> hops(gyre::executor& to, bool& arrived) {
  co_await gyre::resume_on(to);
  arrived = true;
}

TEST_F(DeadlockReport, LetsGoOfTheTokenThoughAnotherExecutorHoldsATask) {
  manual_executor elsewhere;
  bool arrived = false;
  {
    gyre::inplace_stop_source stop;
    EXPECT_THROW(sync_wait(hops(elsewhere, arrived), stop.get_token()), std::system_error);
  }  // asserts that no callback is registered any more
  EXPECT_EQ(elsewhere.run_all(), 1);
  EXPECT_FALSE(arrived);
}

// An operation that another executor holds must not be freed, and refers to a dead stack frame.
TEST_F(DeadlockReport, NeverRunsWhatAnotherExecutorStillHolds) {
  manual_executor elsewhere;
  bool arrived = false;
  EXPECT_THAT(report_of(hops(elsewhere, arrived)), HasSubstr("hops"));
  EXPECT_THAT(report_of(with_scope([&](scope& here) -> task<> {
                here.spawn(hops(elsewhere, arrived));
                here.spawn(elsewhere, hops(elsewhere, arrived), "never started");
                here.spawn(first_to_hang(nullptr));
                co_return;
              })),
              AllOf(HasSubstr("never started"), HasSubstr("first_to_hang")));
  EXPECT_THAT(report_of(gyre::when_all(hops(elsewhere, arrived), returns(nullptr))),
              HasSubstr("hops"));
  EXPECT_THAT(report_of(gyre::when_any(hops(elsewhere, arrived), first_to_hang(nullptr))),
              HasSubstr("hops"));
  EXPECT_EQ(elsewhere.run_all(), 5);
  EXPECT_FALSE(arrived);
}

TEST_F(DeadlockReport, LeavesTheSyncWaitAroundItAsItIs) {
  bool arrived = false;
  auto inner = [&](gyre::executor& outer) -> task<> {
    auto body = [&](scope& here) -> task<> {
      here.spawn(outer, hops(gyre::inline_executor(), arrived));
      co_return;
    };
    co_await with_scope(body);
  };
  auto around = [&]() -> task<std::string> {
    gyre::executor& own = co_await gyre::current_executor();
    std::string report = report_of(inner(own));
    co_await gyre::yield();
    co_return report;
  };
  EXPECT_THAT(sync_wait(around()), HasSubstr("with_scope"));
  EXPECT_FALSE(arrived);
}

TEST_F(DeadlockReport, DoesNotConcernTasksThatAnotherThreadRuns) {
  gyre::test::thread_executor there;
  bool arrived = false;
  EXPECT_EQ(report_of(with_scope([&](scope& here) -> task<> {
              here.spawn(there, returns(alive_));
              here.spawn(hops(there, arrived));
              co_return;
            })),
            "");
  EXPECT_TRUE(arrived);
  EXPECT_EQ(alive(), 0);
}

}  // namespace
}  // namespace deadlock_report_test
