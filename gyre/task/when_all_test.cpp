// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/when_all.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all_test_support.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace when_all_test {
namespace {

using gyre::task;
using gyre::test::failing;
using gyre::test::patient;

task<int> at_once(int value) { co_return value; }

task<std::string> word(std::string value) { co_return value; }

task<int> later(int value) {
  co_await gyre::yield();
  co_return value;
}

task<> nothing() { co_await gyre::yield(); }

TEST(WhenAll, GivesResultsInOrderOfTheArguments) {
  const auto [a, b, c] = gyre::sync_wait(gyre::when_all(later(1), at_once(2), later(3)));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
  EXPECT_EQ(c, 3);
}

TEST(WhenAll, GivesResultsOfARangeInOrder) {
  std::vector<task<int>> tasks;
  for (int i = 0; i < 1000; ++i) tasks.push_back(i % 3 == 0 ? later(i) : at_once(i));
  const std::vector<int> results = gyre::sync_wait(gyre::when_all(std::move(tasks)));
  ASSERT_EQ(results.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], i);
}

task<std::unique_ptr<int>> move_only() { co_return std::make_unique<int>(7); }

task<int&> reference_to(int& value) { co_return value; }

TEST(WhenAll, TakesEveryKindOfResult) {
  int target = 0;
  auto [pointer, reference, none] =
      gyre::sync_wait(gyre::when_all(move_only(), reference_to(target), nothing()));
  reference.get() = *pointer;
  EXPECT_EQ(target, 7);
  static_assert(std::is_same_v<decltype(none), std::monostate>);
}

TEST(WhenAll, TakesAnyRangeAndGivesNothingForVoid) {
  std::list<task<>> tasks;
  tasks.push_back(nothing());
  tasks.push_back(nothing());
  gyre::sync_wait(gyre::when_all(std::move(tasks)));
  gyre::sync_wait(gyre::when_all(std::vector<task<>>{}));
}

// A std::array is refused where the compiler would destroy it twice in an awaited expression.
#if !defined(__GNUC__) || defined(__clang__) || __GNUC__ >= 13
TEST(WhenAll, GivesAnArrayForAnArray) {
  const std::array<std::string, 2> words =
      gyre::sync_wait(gyre::when_all(std::array{word("one"), word("two")}));
  EXPECT_EQ(words, (std::array<std::string, 2>{"one", "two"}));
  const auto outcomes = gyre::sync_wait(gyre::when_all_ready(std::array{later(1), later(2)}));
  static_assert(std::tuple_size_v<std::remove_cvref_t<decltype(outcomes)>> == 2);
  EXPECT_EQ(outcomes[0].value() + 10 * outcomes[1].value(), 21);
  static_assert(
      std::is_void_v<
          gyre::await_result_t<decltype(gyre::when_all(std::declval<std::array<task<>, 3>>()))>>);
  gyre::sync_wait(gyre::when_all(std::array<task<>, 0>()));
}
#endif

TEST(WhenAll, TakesASpanOfAnArray) {
  std::array tasks{word("one"), word("two")};
  const auto words = gyre::sync_wait(gyre::when_all(std::span(tasks)));
  EXPECT_EQ(words, (std::vector<std::string>{"one", "two"}));
}

TEST(WhenAll, TakesManyArguments) {
  const auto results =
      gyre::sync_wait(gyre::when_all(later(0), later(1), later(2), later(3), later(4), later(5),
                                     later(6), word("seven"), later(8), later(9), later(10)));
  EXPECT_EQ(std::get<0>(results) + std::get<6>(results) + std::get<10>(results), 16);
  EXPECT_EQ(std::get<7>(results), "seven");
}

task<> awaits_twice() {
  auto all = gyre::when_all(later(1), later(2));
  static_cast<void>(co_await all);
  static_cast<void>(co_await all);
}

TEST(WhenAll, CanBeAwaitedOnce) { EXPECT_THROW(gyre::sync_wait(awaits_twice()), std::logic_error); }

// Has no destructor, so that nothing marks its end.
struct throws_when_moved {
  throws_when_moved(int number) noexcept : value(number) {}
  throws_when_moved(throws_when_moved&& other) : value(other.value) {
    throw std::runtime_error("moved");
  }
  int value;
};

task<throws_when_moved> immovable_result() { co_return 1; }
task<std::size_t> number(std::size_t value) { co_return value; }

TEST(WhenAll, AResultWhoseMoveThrowsLeavesTheOthersWhole) {
  const auto await_both = []() -> task<> {
    co_await gyre::when_all(immovable_result(), number(3));
  };
  EXPECT_THROW(gyre::sync_wait(await_both()), std::runtime_error);
  const auto await_both_reversed = []() -> task<> {
    co_await gyre::when_all(number(3), immovable_result());
  };
  EXPECT_THROW(gyre::sync_wait(await_both_reversed()), std::runtime_error);
}

TEST(WhenAll, ThrowsTheFirstErrorAfterAllHaveEnded) {
  int stopped = 0;
  try {
    static_cast<void>(gyre::sync_wait(gyre::when_all(patient(stopped), failing("late", 5),
                                                     failing("early", 2), patient(stopped))));
    FAIL() << "did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "early");
  }
  EXPECT_EQ(stopped, 2);
}

TEST(WhenAll, AnErrorBeforeTheOthersStartStopsThemToo) {
  int stopped = 0;
  std::vector<task<int>> tasks;
  tasks.push_back(failing("at once", 0));
  tasks.push_back(patient(stopped));
  EXPECT_THROW(static_cast<void>(gyre::sync_wait(gyre::when_all(std::move(tasks)))),
               std::runtime_error);
  EXPECT_EQ(stopped, 1);
}

TEST(WhenAll, PassesTheParentsStopOn) {
  gyre::inplace_stop_source source;
  source.request_stop();
  int stopped = 0;
  static_cast<void>(
      gyre::sync_wait(gyre::when_all(patient(stopped), patient(stopped)), source.get_token()));
  EXPECT_EQ(stopped, 2);
}

TEST(WhenAll, AnEmptyTaskIsAnErrorAndTheOthersAreAwaited) {
  int stopped = 0;
  std::vector<task<int>> tasks;
  tasks.push_back(patient(stopped));
  tasks.push_back(task<int>());
  tasks.push_back(patient(stopped));
  EXPECT_THROW(static_cast<void>(gyre::sync_wait(gyre::when_all(std::move(tasks)))),
               std::logic_error);
  EXPECT_EQ(stopped, 2);  // the third starts with a stopped token, as after every error
}

TEST(WhenAllReady, AnEmptyTaskIsOneThatFails) {
  for (std::size_t empty = 0; empty < 3; ++empty) {
    std::vector<task<int>> tasks;
    for (int i = 0; i < 3; ++i) tasks.push_back(later(i));
    tasks[empty] = task<int>();
    const auto outcomes = gyre::sync_wait(gyre::when_all_ready(std::move(tasks)));
    ASSERT_EQ(outcomes.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      if (i != empty) {
        EXPECT_EQ(outcomes[i].value(), static_cast<int>(i));
      } else {
        EXPECT_THROW(std::rethrow_exception(outcomes[i].error()), std::logic_error);
      }
    }
  }
}

TEST(WhenAllReady, GivesEachResultOrExceptionAndStopsNobody) {
  auto [good, bad] = gyre::sync_wait(gyre::when_all_ready(later(1), failing("bad", 0)));
  EXPECT_EQ(good.value(), 1);
  ASSERT_FALSE(bad.has_value());
  EXPECT_THROW(std::rethrow_exception(bad.error()), std::runtime_error);

  std::vector<task<int>> tasks;
  tasks.push_back(failing("worse", 1));
  tasks.push_back(later(2));
  const auto outcomes = gyre::sync_wait(gyre::when_all_ready(std::move(tasks)));
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_FALSE(outcomes[0].has_value());
  EXPECT_EQ(outcomes[1].value(), 2);
}

task<> drop_midway(bool& reached) {
  auto all = gyre::as_task(gyre::when_all(later(1), later(2)));
  gyre::task_context context;
  gyre::testing::manual_executor executor;
  context.where = &executor;
  gyre::detail::task_access::state(all).start(context);
  reached = true;
  all = {};
  co_return;
}

TEST(WhenAll, MayBeDroppedWhileItsChildrenWait) {
  bool reached = false;
  gyre::sync_wait(drop_midway(reached));
  EXPECT_TRUE(reached);
}

task<int> on_thread(gyre::executor& there, int value) {
  co_await gyre::resume_on(there);
  co_return value;
}

task<int> gather_from(gyre::executor& one, gyre::executor& two) {
  const std::thread::id home = std::this_thread::get_id();
  int sum = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto [a, b, c] =
        co_await gyre::when_all(on_thread(one, 1), on_thread(two, 2), on_thread(one, 3));
    sum += a + b + c;
    if (std::this_thread::get_id() != home) throw std::logic_error("came back elsewhere");
  }
  co_return sum;
}

TEST(WhenAll, ComesBackToItsOwnExecutorFromChildrenOnOtherThreads) {
  gyre::test::thread_executor one;
  gyre::test::thread_executor two;
  EXPECT_EQ(gyre::sync_wait(gather_from(one, two)), 12000);
}

task<int> failing_on(gyre::executor& there) {
  co_await gyre::resume_on(there);
  throw std::runtime_error("there");
}

task<int> race_of_errors(gyre::executor& one, gyre::executor& two) {
  int caught = 0;
  for (int round = 0; round < 2000; ++round) {
    try {
      static_cast<void>(
          co_await gyre::when_all(failing_on(one), failing_on(two), on_thread(one, 3)));
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  co_return caught;
}

TEST(WhenAll, ErrorsOnSeveralThreadsAtOnce) {
  gyre::test::thread_executor one;
  gyre::test::thread_executor two;
  EXPECT_EQ(gyre::sync_wait(race_of_errors(one, two)), 2000);
}

task<int> tree(gyre::executor& there, int depth) {
  if (depth == 0) {
    co_await gyre::resume_on(there);
    co_return 1;
  }
  const auto [left, right] =
      co_await gyre::when_all(tree(there, depth - 1), tree(there, depth - 1));
  co_return left + right;
}

task<int> depth_of_nest(int left) {
  if (left == 0) {
    co_await gyre::yield();
    co_return 0;
  }
  const auto [below] = co_await gyre::when_all(depth_of_nest(left - 1));
  co_return below + 1;
}

TEST(WhenAll, NestsDeeperThanTheStackHasRoomFor) {
  EXPECT_EQ(gyre::sync_wait(depth_of_nest(100'000)), 100'000);
}

TEST(WhenAll, NestsDeeply) {
  gyre::test::thread_executor there;
  EXPECT_EQ(gyre::sync_wait(tree(there, 10)), 1024);
}

}  // namespace
}  // namespace when_all_test
