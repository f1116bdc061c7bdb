// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/async_backtrace.hpp>

#include <gyre/task/scope.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/sanitizers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <coroutine>
#include <source_location>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace async_backtrace_test {
namespace {

using gyre::task;
using ::testing::HasSubstr;

// Three nested coroutines, which report the lines of their awaits.
task<gyre::async_backtrace> inner(unsigned& line) {
  line = std::source_location::current().line() + 1;
  gyre::async_backtrace trace = co_await gyre::current_backtrace();
  co_return trace;
}
task<gyre::async_backtrace> middle(unsigned& inner_line, unsigned& line) {
  line = std::source_location::current().line() + 1;
  gyre::async_backtrace trace = co_await inner(inner_line);
  co_return trace;
}

struct lines {
  unsigned inner;
  unsigned middle;
  unsigned outer;
};
task<gyre::async_backtrace> outer(lines& at) {
  at.outer = std::source_location::current().line() + 1;
  gyre::async_backtrace trace = co_await middle(at.inner, at.middle);
  co_return trace;
}

class AsyncBacktrace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gyre::async_backtrace_is_on) GTEST_SKIP() << "this build knows no backtraces";
  }
};

TEST(AsyncBacktraceOff, IsEmptyAndCostsNothing) {
  if (gyre::async_backtrace_is_on) GTEST_SKIP() << "this build knows backtraces";
  EXPECT_TRUE(gyre::sync_wait(gyre::current_backtrace()).empty());
  EXPECT_EQ(sizeof(gyre::detail::promise_base), sizeof(void*));
}

TEST_F(AsyncBacktrace, NamesFunctionAndLineOfEveryAwait) {
  lines at{};
  const gyre::async_backtrace trace = gyre::sync_wait(outer(at));
  ASSERT_EQ(trace.frames().size(), 3U);
  EXPECT_EQ(trace.frames()[0].line(), at.inner);
  EXPECT_EQ(trace.frames()[1].line(), at.middle);
  EXPECT_EQ(trace.frames()[2].line(), at.outer);
  EXPECT_THAT(trace.frames()[0].function_name(), HasSubstr("inner"));
  EXPECT_THAT(trace.frames()[2].function_name(), HasSubstr("outer"));
  std::ostringstream printed;
  printed << trace;
  EXPECT_THAT(printed.str(), HasSubstr("async_backtrace_test.cpp:" + std::to_string(at.middle)));
}

task<gyre::async_backtrace> after_a_child_has_ended(unsigned& line) {
  unsigned ignored = 0;
  static_cast<void>(co_await inner(ignored));
  line = std::source_location::current().line() + 1;
  gyre::async_backtrace trace = co_await gyre::current_backtrace();
  co_return trace;
}

TEST_F(AsyncBacktrace, ForgetsCoroutinesThatHaveEnded) {
  unsigned line = 0;
  const gyre::async_backtrace trace = gyre::sync_wait(after_a_child_has_ended(line));
  ASSERT_EQ(trace.frames().size(), 1U);
  EXPECT_EQ(trace.frames()[0].line(), line);
}

task<gyre::async_backtrace> beside_another() {
  unsigned ignored = 0;
  auto both = co_await gyre::when_all(inner(ignored), inner(ignored));
  co_return std::get<1>(both);
}

TEST_F(AsyncBacktrace, GoesOnFromAConcurrentChildToItsParent) {
  const gyre::async_backtrace trace = gyre::sync_wait(beside_another());
  ASSERT_EQ(trace.frames().size(), 2U);
  EXPECT_THAT(trace.frames().front().function_name(), HasSubstr("inner"));
  EXPECT_THAT(trace.frames().back().function_name(), HasSubstr("beside_another"));
}

task<> keep(gyre::async_backtrace& to) { to = co_await gyre::current_backtrace(); }

TEST_F(AsyncBacktrace, KnowsTheNameGivenToSpawn) {
  gyre::testing::manual_executor executor;
  gyre::async_backtrace trace;
  gyre::spawn(executor, keep(trace), {.name = "keeper"});
  executor.run_all();
  EXPECT_EQ(trace.name(), "keeper");
}

constexpr bool has_a_thread_of_its_own = gyre::test::thread_sanitizer_is_on;

task<> wait_for(gyre::testing::manual_executor& there) { co_await gyre::schedule(there); }

TEST_F(AsyncBacktrace, AScopeListsItsLiveTasks) {
  gyre::testing::manual_executor here;
  gyre::testing::manual_executor there;
  std::vector<gyre::async_backtrace> traces;
  std::vector<gyre::async_backtrace> afterwards;
  gyre::spawn(here, gyre::with_scope([&](gyre::scope& scope) -> task<> {
                scope.spawn(wait_for(there), "first");
                scope.spawn(wait_for(there), "second");
                co_await gyre::yield();
                traces = scope.live_tasks();
                there.run_all();
                co_await gyre::yield();
                afterwards = scope.live_tasks();
              }));
  here.run_all();
  ASSERT_EQ(traces.size(), 2U);
  EXPECT_EQ(traces[0].name(), "first");
  EXPECT_EQ(traces[1].name(), "second");
  ASSERT_FALSE(traces[0].empty());
  EXPECT_THAT(traces[0].frames()[0].function_name(), HasSubstr("wait_for"));
  EXPECT_TRUE(afterwards.empty());
}

// A wait that never ends.
struct forever {
  static constexpr bool await_ready() noexcept { return false; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  static constexpr void await_resume() noexcept {}
};
task<> wait_for_ever() { co_await forever{}; }
task<> wait_for_it() { co_await wait_for_ever(); }

TEST_F(AsyncBacktrace, SyncWaitReportsThatNobodyIsLeftToWakeIt) {
  if (has_a_thread_of_its_own) GTEST_SKIP() << "ThreadSanitizer's runtime has a thread of its own";
  try {
    gyre::sync_wait(wait_for_it());
    FAIL() << "returned";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::resource_deadlock_would_occur);
    EXPECT_THAT(error.what(), HasSubstr("wait_for_ever"));
    EXPECT_THAT(error.what(), HasSubstr("wait_for_it"));
  }
}

task<> hop(gyre::executor& to) { co_await gyre::resume_on(to); }
task<> wait_within(gyre::executor& to, std::error_code& code) {
  try {
    gyre::sync_wait(hop(to));
  } catch (const std::system_error& error) {
    code = error.code();
  }
  co_return;
}
task<> within_sync_wait(std::error_code& code) {
  gyre::executor& here = co_await gyre::current_executor();
  co_await wait_within(here, code);
}

TEST_F(AsyncBacktrace, AHopToTheThreadThatWaitsForItIsReported) {
  std::error_code code;
  gyre::sync_wait(within_sync_wait(code));
  EXPECT_EQ(code, std::errc::resource_deadlock_would_occur);
}

}  // namespace
}  // namespace async_backtrace_test
