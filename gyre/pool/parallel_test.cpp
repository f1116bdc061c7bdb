// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/parallel.hpp>

#include <gyre/pool/detail/helper.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/executor.hpp>
#include <tests/support/forking_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace parallel_test {
namespace {

using gyre::test::forking_executor;
using gyre::test::stealing;

// Lets waiting threads help, as a pool's workers do.
struct thread_helper final : gyre::detail::helper {
  explicit thread_helper(forking_executor& of) : executor(of) {}
  bool help_once() noexcept override { return executor.run_one(); }
  forking_executor& executor;
};
void help_while_waiting(forking_executor& executor, const std::function<void()>& run) {
  thread_helper help(executor);
  const gyre::detail::helping_scope helping(help);
  run();
}

struct told_to_steal : forking_executor {
  explicit told_to_steal(std::size_t threads)
      : forking_executor(threads, stealing::on_demand, help_while_waiting) {}
};

// Runs `function` on a thread of `where`.
template <class F>
void on(gyre::executor& where, F function) {
  gyre::detail::run_on(where, function);
}

// Functions are called as lvalues, however they are passed.
TEST(Parallel, TakesFunctionsThatOnlyLvaluesCall) {
  struct lvalue_only {
    void operator()() & {}
    int operator()(int i) & { return i; }
  };
  struct rvalue_only {
    void operator()() && {}
  };
  told_to_steal executor(1);
  gyre::parallel_invoke(executor, lvalue_only(), lvalue_only());
  gyre::parallel_for(executor, 0, 3, lvalue_only());
  gyre::parallel_for(executor, 0, std::int64_t{3}, lvalue_only());
  gyre::parallel_for(executor, std::array{0, 1, 2}, lvalue_only());
  EXPECT_EQ(gyre::parallel_reduce(executor, 0, 3, 0, lvalue_only(), std::plus()), 3);
  EXPECT_EQ(gyre::parallel_reduce(executor, 0, std::int64_t{3}, 0, lvalue_only(), std::plus()), 3);
  EXPECT_EQ(gyre::parallel_reduce(executor, std::array{1, 2}, 0, lvalue_only(), std::plus()), 3);
  const auto accepts = []<class F>(F) {
    return requires(told_to_steal& where, F function) {
      gyre::parallel_invoke(where, std::move(function));
    };
  };
  EXPECT_FALSE(accepts(rvalue_only()));
}

TEST(ParallelInvoke, WithoutThievesCallsInOrderOnTheCallersThread) {
  told_to_steal executor(2);
  std::vector<int> order;
  std::set<std::thread::id> threads;
  const auto call = [&](int number) {
    order.push_back(number);
    threads.insert(std::this_thread::get_id());
  };
  on(executor, [&] {
    gyre::parallel_invoke(executor, [&] { call(1); }, [&] { call(2); }, [&] { call(3); });
  });
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_EQ(executor.offers(), 2U);
}

TEST(ParallelInvoke, AThiefCallsTheRest) {
  told_to_steal executor(2);
  std::array<std::thread::id, 3> threads;
  on(executor, [&] {
    gyre::parallel_invoke(
        executor,
        [&] {
          threads[0] = std::this_thread::get_id();
          EXPECT_TRUE(executor.steal_now());
        },
        [&] { threads[1] = std::this_thread::get_id(); },
        [&] { threads[2] = std::this_thread::get_id(); });
  });
  EXPECT_NE(threads[0], threads[1]);
  EXPECT_EQ(threads[1], threads[2]);
}

TEST(ParallelInvoke, FromAnyThreadRunsOnTheExecutorsOwn) {
  told_to_steal executor(1);
  bool there = true;
  const auto look = [&] { there = there && executor.running_here(); };
  gyre::parallel_invoke(executor, look, look);
  gyre::parallel_invoke(executor, look);
  EXPECT_TRUE(there);
}

TEST(ParallelInvoke, OnAnExecutorThatDoesNotForkCallsOneAfterTheOther) {
  gyre::test::thread_executor executor;
  std::vector<int> order;
  gyre::parallel_invoke(
      executor, [&] { order.push_back(1); }, [&] { order.push_back(2); },
      [&] { order.push_back(3); });
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
}

TEST(ParallelInvoke, AnErrorLeavesOutWhatHasNotBegun) {
  told_to_steal executor(2);
  bool called = false;
  EXPECT_THROW(gyre::parallel_invoke(
                   executor, [] { throw std::runtime_error("first"); }, [&] { called = true; }),
               std::runtime_error);
  EXPECT_FALSE(called);
}

TEST(ParallelInvoke, AnErrorWaitsForWhatHasBegunAndTheFirstNamedIsThrown) {
  told_to_steal executor(2);
  bool called = false;
  try {
    gyre::parallel_invoke(
        executor,
        [&] {
          executor.steal_now();
          throw std::runtime_error("first");
        },
        [&] {
          called = true;
          throw std::runtime_error("second");
        });
    FAIL() << "did not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_TRUE(called);
}

TEST(ParallelInvoke, AnErrorOfAThiefIsThrown) {
  told_to_steal executor(2);
  EXPECT_THROW(gyre::parallel_invoke(
                   executor, [&] { EXPECT_TRUE(executor.steal_now()); },
                   [] { throw std::runtime_error("second"); }),
               std::runtime_error);
}

struct nothing final : gyre::operation {
  nothing() : operation([](operation& self) { ++static_cast<nothing&>(self).runs; }) {}
  int runs = 0;
};

TEST(ParallelInvoke, OffersBelowANewerOneAreRunByTheWaitingThread) {
  told_to_steal executor(1);
  nothing newer;
  int second = 0;
  gyre::parallel_invoke(executor, [&] { EXPECT_TRUE(executor.push(newer)); }, [&] { ++second; });
  EXPECT_EQ(newer.runs, 1);
  EXPECT_EQ(second, 1);
}

template <class Executor>
int fibonacci(Executor& executor, int n) {
  if (n < 2) return n;
  int a = 0;
  int b = 0;
  gyre::parallel_invoke(
      executor, [&] { a = fibonacci(executor, n - 1); }, [&] { b = fibonacci(executor, n - 2); });
  return a + b;
}

TEST(ParallelInvoke, NestsOnThreadsThatStealWhatTheyCan) {
  forking_executor executor(3, stealing::at_once, help_while_waiting);
  for (int round = 0; round < 5; ++round) EXPECT_EQ(fibonacci(executor, 12), 144);
}

TEST(ParallelInvoke, NestsOnAPool) {
  gyre::thread_pool pool(3);
  for (int round = 0; round < 20; ++round) EXPECT_EQ(fibonacci(pool, 16), 987);
}

TEST(ParallelFor, VisitsEachIndexOnceWhateverTheGrain) {
  told_to_steal executor(1);
  for (const std::size_t grain : {0U, 1U, 7U, 100U, 1000U}) {
    std::vector<int> visits(100);
    gyre::parallel_for(executor, std::size_t{0}, visits.size(), [&](std::size_t i) { ++visits[i]; },
                       {grain});
    EXPECT_TRUE(std::ranges::all_of(visits, [](int count) { return count == 1; })) << grain;
  }
}

TEST(ParallelFor, TakesEveryKindOfIndexAndNothingOfAnEmptyRange) {
  told_to_steal executor(1);
  int sum = 0;
  gyre::parallel_for(executor, -3, 4, [&](int i) { sum += 100 + i; });
  gyre::parallel_for(executor, std::int16_t{-5}, std::int16_t{5},
                     [&](std::int16_t i) { sum += i; });
  gyre::parallel_for(executor, 4, -3, [&](int) { ++sum; });
  gyre::parallel_for(executor, std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 2,
                     [&](std::uint64_t) { ++sum; });
  EXPECT_EQ(sum, 697);
}

// The difference of two narrow indices is an int, and may be less than zero.
TEST(ParallelFor, NarrowIndicesFromBelowZeroAreDivided) {
  told_to_steal executor(1);
  int bytes = 0;
  gyre::parallel_for(executor, std::int8_t{-100}, std::int8_t{100}, [&](std::int8_t) { ++bytes; });
  EXPECT_EQ(bytes, 200);
  int shorts = 0;
  const std::size_t before = executor.offers();
  gyre::parallel_for(executor, std::int16_t{-100}, std::int16_t{100},
                     [&](std::int16_t) { ++shorts; });
  EXPECT_EQ(shorts, 200);
  EXPECT_GT(executor.offers(), before);
}

TEST(ParallelFor, IndexHasTheCommonTypeOfBothEnds) {
  told_to_steal executor(1);
  const std::size_t beyond_int = (std::size_t{1} << 32) + 3;
  std::size_t sum = 0;
  gyre::parallel_for(executor, 1LL << 32, beyond_int,
                     [&](std::size_t i) { sum += i - beyond_int; });
  EXPECT_EQ(sum, static_cast<std::size_t>(-6));
  EXPECT_EQ(gyre::parallel_reduce(executor, 0, std::size_t{5}, std::size_t{0}, std::identity(),
                                  std::plus<>()),
            10U);
  gyre::parallel_for(executor, std::size_t{0}, -1, [](std::size_t) { FAIL() << "an empty range"; });
  EXPECT_THROW(gyre::parallel_for(executor, -1, std::size_t{5}, [](std::size_t) {}),
               std::invalid_argument);
}

TEST(ParallelFor, VisitsTheElementsOfARange) {
  told_to_steal executor(1);
  std::vector<std::string> words{"a", "b", "c"};
  gyre::parallel_for(executor, words, [](std::string& word) { word += '!'; });
  EXPECT_EQ(words, (std::vector<std::string>{"a!", "b!", "c!"}));
}

TEST(ParallelFor, DividesOnlyWhatOthersTake) {
  told_to_steal executor(2);
  const auto nobody = [](int) {};
  gyre::parallel_for(executor, 0, 1024, nobody, {.grain = 1});
  EXPECT_LE(executor.offers(), 10U);  // halves of halves, down to the grain

  // Each theft in the middle of the work makes the thread divide its remaining work.
  const std::size_t before = executor.offers();
  std::atomic<int> steals{0};
  std::vector<int> visits(1024);
  gyre::parallel_for(executor, 0, 1024,
                     [&](int i) {
                       ++visits[static_cast<std::size_t>(i)];
                       if (i < 8) steals += executor.steal_now() ? 1 : 0;
                     },
                     {.grain = 1});
  EXPECT_EQ(steals, 8);
  EXPECT_GT(executor.offers(), before + 8);
  EXPECT_TRUE(std::ranges::all_of(visits, [](int count) { return count == 1; }));
}

TEST(ParallelFor, AnErrorEndsItSoonAndIsThrown) {
  told_to_steal executor(2);
  std::atomic<int> calls{0};
  EXPECT_THROW(gyre::parallel_for(executor, 0, 1000,
                                  [&](int i) {
                                    ++calls;
                                    if (i == 3) executor.steal_now();
                                    if (i == 700 || i == 5) throw std::runtime_error("body");
                                  },
                                  {.grain = 1}),
               std::runtime_error);
  EXPECT_LT(calls, 1000);
}

TEST(ParallelReduce, GivesTheIdentityOfNothing) {
  told_to_steal executor(1);
  EXPECT_EQ(gyre::parallel_reduce(executor, 3, 3, 42, [](int i) { return i; }, std::plus()), 42);
}

// The string is as expected only if the elements are combined in order; the value can be moved only
// once, and copies are expensive.
TEST(ParallelReduce, CombinesInOrderWhoeverTakesWhat) {
  told_to_steal executor(4);
  std::string expected;
  for (int i = 0; i < 200; ++i) expected += std::to_string(i) + ',';
  for (const int theft : {0, 1, 50, 99, 120}) {
    const std::string joined = gyre::parallel_reduce(
        executor, 0, 200, std::string(),
        [&](int i) {
          if (i == theft || i == theft + 1) executor.steal_now();
          return std::to_string(i) + ',';
        },
        [](std::string left, const std::string& right) { return std::move(left) + right; },
        {.grain = 3});
    EXPECT_EQ(joined, expected) << theft;
  }
}

TEST(ParallelReduce, SumsARangeOnAPool) {
  gyre::thread_pool pool(2);
  std::vector<std::int64_t> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 1);
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(gyre::parallel_reduce(pool, numbers, std::int64_t{0}, std::identity(), std::plus()),
              std::int64_t{100'000} * 100'001 / 2);
  }
}

TEST(ParallelReduce, AnErrorOfACombinationIsThrown) {
  told_to_steal executor(2);
  const auto failing = [](int, int) -> int { throw std::runtime_error("combine"); };
  EXPECT_THROW(static_cast<void>(gyre::parallel_reduce(
                   executor, 0, 100, 0, [](int i) { return i; }, failing)),
               std::runtime_error);
}

TEST(ParallelReduce, NestsInLoopsOfSeveralThreads) {
  forking_executor executor(3, stealing::at_once, help_while_waiting);
  std::vector<int> sums(20);
  gyre::parallel_for(executor, 0, 20,
                     [&](int row) {
                       sums[static_cast<std::size_t>(row)] =
                           gyre::parallel_reduce(executor, 0, 50, 0, [&](int i) { return row * i; },
                                                 std::plus(), {.grain = 1});
                     },
                     {.grain = 1});
  for (int row = 0; row < 20; ++row) EXPECT_EQ(sums[static_cast<std::size_t>(row)], row * 1225);
}

TEST(ParallelReduce, FromSeveralThreadsAtOnce) {
  gyre::thread_pool pool(2);
  std::vector<std::jthread> users;
  std::atomic<int> right{0};
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const int sum =
            gyre::parallel_reduce(pool, 0, 1000, 0, [](int i) { return i; }, std::plus());
        right += sum == 499'500 ? 1 : 0;
      }
    });
  }
  users.clear();
  EXPECT_EQ(right, 200);
}

}  // namespace
}  // namespace parallel_test
