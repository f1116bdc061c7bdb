// SPDX-License-Identifier: Apache-2.0
// Tests that the stack stays flat, however many coroutines follow each other, on a thread with a
// small stack, and that memory stays bounded.
#include <gyre/task/task.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/small_stack.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <exception>
#include <stdexcept>
#include <utility>

namespace task_depth_test {
namespace {

using namespace std::chrono_literals;
using gyre::sync_wait;
using gyre::task;
using gyre::test::on_small_stack;
using gyre::test::unless_sanitized;

// Debug builds are slow, and a few thousand rounds are enough to overflow the stack.
#if defined(NDEBUG)
constexpr long many = 10'000'000;
#else
constexpr long many = 300'000;
#endif

// The result of `work()`, run on a small stack.
template <class Work>
auto waited_for(Work work) {
  decltype(sync_wait(work())) result{};
  on_small_stack([&] { result = sync_wait(work()); });
  return result;
}

[[gnu::noinline]] task<int> ready(int value) { co_return value; }
[[gnu::noinline]] task<int> fails() {
  throw std::runtime_error("no");
  co_return 0;
}

task<long> sum_of_ready(long count) {
  long sum = 0;
  for (long i = 0; i < count; ++i) sum += co_await ready(1);
  co_return sum;
}

TEST(TaskDepth, TenMillionAwaitsOfReadyTasksRunInConstantStackAndMemory) {
  constexpr long count = unless_sanitized(10'000'000L, 10L);
  const std::size_t before = gyre::read_slab_stats().bytes_held;
  EXPECT_EQ(waited_for([] { return sum_of_ready(count); }), count);
  EXPECT_LE(gyre::read_slab_stats().bytes_held, before + (std::size_t{1} << 20));
}

task<long> count_failures(long count) {
  long failures = 0;
  for (long i = 0; i < count; ++i) {
    try {
      co_await fails();
    } catch (const std::runtime_error&) {
      ++failures;
    }
  }
  co_return failures;
}

TEST(TaskDepth, AwaitsThatThrowRunInConstantStack) {
  EXPECT_EQ(waited_for([] { return count_failures(20'000); }), 20'000);
}

task<long> links(long depth) {
  if (depth == 0) co_return 0;
  const long below = co_await links(depth - 1);
  co_return below + 1;
}

TEST(TaskDepth, ChainOfAHundredThousandRunsInConstantStack) {
  EXPECT_EQ(waited_for([] { return links(100'000); }), 100'000);
}

// Every other link throws; the links between them catch.
task<long> links_that_throw(long depth) {
  if (depth == 0) throw std::runtime_error("from the bottom");
  try {
    co_await links_that_throw(depth - 1);
  } catch (const std::runtime_error&) {
    co_return depth;
  }
  throw std::runtime_error("from above");
}

TEST(TaskDepth, ChainThatFailsRunsInConstantStack) {
  EXPECT_EQ(waited_for([] { return links_that_throw(19'999); }), 19'999);
}

task<long> links_that_wait(long depth) {
  if (depth == 0) {
    co_await gyre::yield();
    co_return 0;
  }
  const long below = co_await links_that_wait(depth - 1);
  co_return below + 1;
}

TEST(TaskDepth, ChainThatWaitedAtTheBottomEndsInConstantStack) {
  EXPECT_EQ(waited_for([] { return links_that_wait(100'000); }), 100'000);
}

task<long> yields(long count) {
  for (long i = 0; i < count; ++i) co_await gyre::yield();
  co_return count;
}

TEST(TaskDepth, YieldsOnAnExecutorRunInConstantStack) {
  EXPECT_EQ(waited_for([] { return yields(many); }), many);
}

task<long> yields_inline(long count) {
  co_await gyre::resume_on(gyre::inline_executor());
  co_return co_await yields(count);
}

TEST(TaskDepth, YieldsWithoutAnExecutorRunInConstantStack) {
  EXPECT_EQ(waited_for([] { return yields_inline(many); }), many);
}

task<long> limited(long count) {
  long sum = 0;
  for (long i = 0; i < count; ++i) sum += co_await gyre::with_timeout(ready(1), 1h);
  co_return sum;
}

TEST(TaskDepth, TimeLimitsOfReadyTasksRunInConstantStack) {
  constexpr long count = unless_sanitized(many / 10, 10L);
  gyre::testing::manual_executor executor;
  long sum = 0;
  on_small_stack([&] { sum = gyre::testing::run_in_virtual_time(executor, limited(count)); });
  EXPECT_EQ(sum, count);
}

task<long> hops(gyre::executor& there, long count) {
  gyre::executor& home = co_await gyre::current_executor();
  for (long i = 0; i < count; ++i) {
    co_await gyre::resume_on(there);
    co_await gyre::resume_on(home);
  }
  co_return count;
}

TEST(TaskDepth, HopsRunInConstantStack) {
  EXPECT_EQ(waited_for([] { return hops(gyre::inline_executor(), many / 10); }), many / 10);
}

// These awaiters resume the coroutine at once, each by one of the ways of await_suspend().
struct says_false {
  static bool await_ready() noexcept { return false; }
  static bool await_suspend(std::coroutine_handle<>) noexcept { return false; }
  static void await_resume() noexcept {}
};
struct returns_itself {
  static bool await_ready() noexcept { return false; }
  static std::coroutine_handle<> await_suspend(std::coroutine_handle<> self) noexcept {
    return gyre::detail::transfer_to(self);
  }
  static void await_resume() noexcept {}
};

template <class Awaiter>
task<long> awaits(long count) {
  for (long i = 0; i < count; ++i) co_await Awaiter{};
  co_return count;
}

TEST(TaskDepth, AwaitsThatNeedNotWaitRunInConstantStack) {
  EXPECT_EQ(waited_for([] { return awaits<says_false>(many); }), many);
  EXPECT_EQ(waited_for([] { return awaits<returns_itself>(many); }), many);
}

task<long> nested(int depth) {
  if (depth == 0) co_return 0;
  co_return 1 + sync_wait(nested(depth - 1));
}

// The stack grows, since each sync_wait() is a call, but the nesting works.
TEST(TaskDepth, SyncWaitsNest) { EXPECT_EQ(sync_wait(nested(50)), 50); }

}  // namespace
}  // namespace task_depth_test
