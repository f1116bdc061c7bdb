// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/async_generator.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <memory_resource>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace async_generator_test {
namespace {

using gyre::async_generator;
using gyre::sync_wait;
using gyre::task;
using gyre::test::unless_sanitized;
using testing::ElementsAre;

template <class T>
task<std::vector<std::remove_cvref_t<T>>> collect(async_generator<T> from) {
  std::vector<std::remove_cvref_t<T>> all;
  while (auto* item = co_await from.next()) all.push_back(std::move(*item));
  co_return all;
}

task<int> twice(int value) { co_return 2 * value; }

async_generator<int> doubled_to(int last) {
  for (int i = 1; i <= last; ++i) {
    const int value = co_await twice(i);
    co_yield value;
  }
}

TEST(AsyncGenerator, YieldsItsValuesInOrderAndThenEnds) {
  EXPECT_THAT(sync_wait(collect(doubled_to(3))), ElementsAre(2, 4, 6));
}

TEST(AsyncGenerator, StaysAtItsEnd) {
  sync_wait([]() -> task<> {
    auto values = doubled_to(0);
    const int* first = co_await values.next();
    EXPECT_EQ(first, nullptr);
    const int* second = co_await values.next();
    EXPECT_EQ(second, nullptr);
  }());
}

TEST(AsyncGenerator, EmptiedOneIsAtItsEnd) {
  sync_wait([]() -> task<> {
    auto values = doubled_to(1);
    auto taken = std::move(values);
    const int* none = co_await values.next();
    EXPECT_EQ(none, nullptr);
    const int* first = co_await taken.next();
    EXPECT_EQ(*first, 2);
  }());
}

TEST(AsyncGenerator, RunsOnlyAsFarAsItIsAsked) {
  sync_wait([]() -> task<> {
    int step = 0;
    auto make = [](int& reached) -> async_generator<int> {
      reached = 1;
      co_yield 1;
      reached = 2;
    };
    auto values = make(step);
    EXPECT_EQ(step, 0);
    static_cast<void>(co_await values.next());
    EXPECT_EQ(step, 1);
    static_cast<void>(co_await values.next());
    EXPECT_EQ(step, 2);
  }());
}

TEST(AsyncGenerator, ElementsCanBeMovedFrom) {
  auto make = []() -> async_generator<std::unique_ptr<int>> {
    co_yield std::make_unique<int>(1);
    auto second = std::make_unique<int>(2);
    co_yield std::move(second);
  };
  const auto all = sync_wait(collect(make()));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(*all[0] + *all[1], 3);
}

TEST(AsyncGenerator, ValuesAreCopiedIfTheCoroutineKeepsThem) {
  auto make = []() -> async_generator<std::string> {
    const std::string kept(100, 'x');
    co_yield kept;
    co_yield kept;
  };
  EXPECT_THAT(sync_wait(collect(make())),
              ElementsAre(std::string(100, 'x'), std::string(100, 'x')));
}

TEST(AsyncGenerator, ReferencesReferToTheObjectsThemselves) {
  auto each_of = [](std::vector<int>& numbers) -> async_generator<int&> {
    for (int& number : numbers) co_yield number;
  };
  std::vector<int> numbers{1, 2};
  sync_wait([](async_generator<int&> all) -> task<> {
    while (int* number = co_await all.next()) *number *= 10;
  }(each_of(numbers)));
  EXPECT_THAT(numbers, ElementsAre(10, 20));
}

TEST(AsyncGenerator, ThrowsWhatItsBodyThrowsOnceAndIsThenAtItsEnd) {
  sync_wait([]() -> task<> {
    auto values = []() -> async_generator<int> {
      co_yield 1;
      throw std::runtime_error("broken");
    }();
    static_cast<void>(co_await values.next());
    bool thrown = false;
    try {
      static_cast<void>(co_await values.next());
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    const int* last = co_await values.next();
    EXPECT_EQ(last, nullptr);
  }());
}

TEST(AsyncGenerator, TenMillionElementsInConstantStack) {
  constexpr int count = unless_sanitized(10'000'000, 10);
  auto make = []() -> async_generator<int> {
    for (int i = 0; i < count; ++i) co_yield 1;
  };
  const long sum = sync_wait([](async_generator<int> ones) -> task<long> {
    long total = 0;
    while (const int* one = co_await ones.next()) total += *one;
    co_return total;
  }(make()));
  EXPECT_EQ(sum, count);
}

TEST(AsyncGenerator, AwaitsAMillionReadyTasksInConstantStack) {
  constexpr int count = unless_sanitized(1'000'000, 5);
  EXPECT_EQ(sync_wait(collect(doubled_to(count))).size(), static_cast<std::size_t>(count));
}

TEST(AsyncGenerator, FeedsOneAnother) {
  auto plus_one = [](async_generator<int> from) -> async_generator<int> {
    while (const int* value = co_await from.next()) co_yield *value + 1;
  };
  EXPECT_THAT(sync_wait(collect(plus_one(plus_one(doubled_to(2))))), ElementsAre(4, 6));
}

TEST(AsyncGenerator, SeesTheStopTokenOfItsConsumer) {
  auto until_stopped = []() -> async_generator<int> {
    for (int i = 0;; ++i) {
      const gyre::inplace_stop_token stop = co_await gyre::current_stop_token();
      if (stop.stop_requested()) co_return;
      co_yield i;
    }
  };
  gyre::inplace_stop_source source;
  const int seen = sync_wait(
      [](async_generator<int> values, gyre::inplace_stop_source& stop) -> task<int> {
        int count = 0;
        while (const int* value = co_await values.next()) {
          ++count;
          if (*value == 4) stop.request_stop();
        }
        co_return count;
      }(until_stopped(), source),
      source.get_token());
  EXPECT_EQ(seen, 5);
}

TEST(AsyncGenerator, IsConsumedByOneCoroutineAfterTheOther) {
  auto values = doubled_to(4);
  auto take_two = [](async_generator<int>& from) -> task<int> {
    const int* first = co_await from.next();
    const int one = *first;
    const int* second = co_await from.next();
    co_return one + *second;
  };
  EXPECT_EQ(sync_wait(take_two(values)), 2 + 4);
  gyre::test::thread_executor elsewhere;
  EXPECT_EQ(sync_wait(gyre::on(elsewhere, take_two(values))), 6 + 8);
}

TEST(AsyncGenerator, MovesItsConsumerWhenItResumesElsewhere) {
  gyre::test::thread_executor there;
  auto hop = [](gyre::executor& to) -> async_generator<std::thread::id> {
    co_yield std::this_thread::get_id();
    co_await gyre::resume_on(to);
    co_yield std::this_thread::get_id();
  };
  sync_wait([](async_generator<std::thread::id> ids, std::thread::id other) -> task<> {
    const std::thread::id* first = co_await ids.next();
    EXPECT_EQ(*first, std::this_thread::get_id());
    const std::thread::id* second = co_await ids.next();
    EXPECT_EQ(*second, other);
    EXPECT_EQ(std::this_thread::get_id(), other);
  }(hop(there), there.id()));
}

// Clang puts the generator into its consumer's frame, where it is aligned to eight bytes only.
[[gnu::noinline]] task<int> awaited(int value) { co_return value; }
template <std::size_t Words>
inline async_generator<int> awaiting(int last) {
  for (int i = 0; i <= last; ++i) co_yield co_await awaited(i);
}
template <std::size_t Words>
[[gnu::noinline]] task<long> consumes_beside(long value) {
  volatile long before[Words] = {value};
  auto numbers = awaiting<Words>(3);
  long sum = 0;
  while (const int* number = co_await numbers.next()) sum += *number;
  co_return sum + before[0];
}

TEST(AsyncGenerator, AwaitsWhereverItsFrameIs) {
  EXPECT_EQ(sync_wait(consumes_beside<1>(1)), 7);
  EXPECT_EQ(sync_wait(consumes_beside<2>(2)), 8);
  EXPECT_EQ(sync_wait(consumes_beside<3>(3)), 9);
  EXPECT_EQ(sync_wait(consumes_beside<4>(4)), 10);
}

TEST(AsyncGenerator, DestroyedInTheMiddleDestroysItsLocals) {
  auto alive = std::make_shared<int>();
  sync_wait([](std::shared_ptr<int> held) -> task<> {
    auto make = [](std::shared_ptr<int> kept) -> async_generator<int> {
      for (int i = 0;; ++i) co_yield i + *kept;
    };
    auto values = make(held);
    static_cast<void>(co_await values.next());
    static_cast<void>(co_await values.next());
  }(alive));
  EXPECT_EQ(alive.use_count(), 1);
}

// A wait that ends only by the coroutine's destruction.
struct forever {
  static bool await_ready() noexcept { return false; }
  static void await_suspend(std::coroutine_handle<>) noexcept {}
  static void await_resume() noexcept {}
};

// A coroutine that the test starts and may drop.
struct started_task {
  gyre::task_context context;
  std::optional<task<>> work;

  explicit started_task(task<> given) : work(std::move(given)) {
    context.finished = [](gyre::task_context&) noexcept -> std::coroutine_handle<> {
      return std::noop_coroutine();
    };
    gyre::detail::task_access::state(*work).start(context);
  }
};

TEST(AsyncGenerator, IsDroppedWithACoroutineThatWaitsForItsNextElement) {
  auto alive = std::make_shared<int>();
  auto stuck = [](std::shared_ptr<int> held) -> async_generator<int> {
    co_yield *held;
    co_await forever{};
  };
  auto consume = [](async_generator<int> from) -> task<> {
    const int* element = nullptr;
    do element = co_await from.next();
    while (element != nullptr);
  };
  {
    const started_task waiting(consume(stuck(alive)));
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(AsyncGenerator, DroppedBeforeItRanRunsNothing) {
  auto alive = std::make_shared<int>();
  {
    auto values = [](std::shared_ptr<int> held) -> async_generator<int> { co_yield *held; }(alive);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

// Not inlined: otherwise Clang elides the frame.
[[gnu::noinline]] async_generator<int> one_with(std::allocator_arg_t,
                                                std::pmr::polymorphic_allocator<>) {
  co_yield 1;
}

TEST(AsyncGenerator, TakesItsFrameFromAnAllocator) {
  std::byte room[1024];
  std::pmr::monotonic_buffer_resource memory(room, sizeof(room), std::pmr::null_memory_resource());
  EXPECT_THAT(sync_wait(collect(one_with(std::allocator_arg, &memory))), ElementsAre(1));
}

}  // namespace
}  // namespace async_generator_test
