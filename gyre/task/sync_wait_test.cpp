// SPDX-License-Identifier: Apache-2.0
// Tests of waiting for coroutines in ordinary code: their thread, the report of their end from any
// thread, and the cost of waiting.
#include <gyre/task/sync_wait.hpp>

#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/sanitizers.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <coroutine>
#include <csignal>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace sync_wait_test {
namespace {

using gyre::sync_wait;
using gyre::task;
using gyre::test::this_thread_id;
using gyre::test::thread_executor;

// ThreadSanitizer's runtime has a thread of its own, which sync_wait() must assume to wake
// coroutines.
constexpr bool has_a_thread_of_its_own = gyre::test::thread_sanitizer_is_on;

task<std::thread::id> this_thread() { co_return this_thread_id(); }

TEST(SyncWait, RunsOnTheCallingThread) { EXPECT_EQ(sync_wait(this_thread()), this_thread_id()); }

task<bool> goes_away_and_comes_back(gyre::executor& there) {
  gyre::executor& home = co_await gyre::current_executor();
  const bool began_at_home = home.running_here();
  co_await gyre::resume_on(there);
  const bool was_there = there.running_here() && !home.running_here();
  co_await gyre::resume_on(home);
  co_return began_at_home&& was_there&& home.running_here();
}

TEST(SyncWait, CoroutinesComeBackToTheCallingThread) {
  thread_executor there;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(sync_wait(goes_away_and_comes_back(there)));
}

task<int> ends_at(gyre::executor& there, int value) {
  co_await gyre::resume_on(there);
  co_return value;
}

// The waiting state is destroyed as soon as the end is reported: the reporter must not touch it
// again.
TEST(SyncWait, ReturnsWhatEndedOnAnotherThread) {
  thread_executor there;
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(sync_wait(ends_at(there, i)), i);
}

TEST(SyncWait, ThrowsWhatWasThrownOnAnotherThread) {
  thread_executor there;
  auto fails = [](gyre::executor& at) -> task<int&> {
    co_await gyre::resume_on(at);
    throw std::runtime_error("there");
  };
  EXPECT_THROW(sync_wait(fails(there)), std::runtime_error);
}

TEST(SyncWait, ReturnsWhatEndedInlineOnAnotherExecutorOfTheThread) {
  EXPECT_EQ(sync_wait(ends_at(gyre::inline_executor(), 3)), 3);
}

// Resumes the coroutine like a library that is unaware of executors.
struct on_a_thread_of_its_own {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    thread->emplace([waiting] { gyre::detail::resume(waiting); });
  }
  static void await_resume() noexcept {}
  std::optional<std::jthread>* thread;
};

TEST(SyncWait, ReturnsWhatAThreadOfOthersResumed) {
  auto leaves = [](std::optional<std::jthread>& thread) -> task<int> {
    co_await on_a_thread_of_its_own{&thread};
    co_return 4;
  };
  for (int i = 0; i < 200; ++i) {
    std::optional<std::jthread> thread;
    EXPECT_EQ(sync_wait(leaves(thread)), 4);
  }
}

TEST(SyncWait, NestsWithinACoroutine) {
  thread_executor there;
  auto waits = [](gyre::executor& elsewhere) -> task<int> {
    gyre::executor& outer = co_await gyre::current_executor();
    const int inner = sync_wait(ends_at(elsewhere, 1));
    co_await gyre::yield();
    co_return inner + (outer.running_here() ? 1 : 0);
  };
  EXPECT_EQ(sync_wait(waits(there)), 2);
}

// Its coroutine waits in the middle of an operation.
TEST(SyncWait, OuterOneIsNotHereWithinTheInner) {
  auto inner = [](gyre::executor& outer) -> task<bool> {
    gyre::executor& own = co_await gyre::current_executor();
    co_return !outer.running_here() && outer.runs_only_here() && own.running_here();
  };
  auto outer = [](auto work) -> task<bool> {
    gyre::executor& own = co_await gyre::current_executor();
    co_return sync_wait(work(own));
  };
  EXPECT_TRUE(sync_wait(outer(inner)));
}

// Resumes the coroutine that waits within set(), as events of other libraries do.
struct foreign_event {
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) noexcept { waiting = awaiting; }
  static void await_resume() noexcept {}
  void set() { std::exchange(waiting, nullptr).resume(); }
  std::coroutine_handle<> waiting;
};

TEST(SyncWait, InnerOneResumesNoCoroutineOfTheOuterInTheMiddleOfAnother) {
  foreign_event event;
  bool other_waits = false;
  auto sets = [](foreign_event& to_set) -> task<> {
    to_set.set();
    co_return;
  };
  auto resumes_within = [](foreign_event& awaited, const bool& waits) -> task<bool> {
    co_await awaited;
    co_return waits;
  };
  auto waits_within = [](auto set, foreign_event& to_set, bool& waits) -> task<> {
    waits = true;
    sync_wait(set(to_set));
    waits = false;
    co_return;
  };
  auto both =
      gyre::when_all(resumes_within(event, other_waits), waits_within(sets, event, other_waits));
  const bool within = std::get<0>(sync_wait(std::move(both)));
  EXPECT_FALSE(within);
}

TEST(SyncWait, HandsOverTheStopToken) {
  auto asked = []() -> task<bool> {
    const gyre::inplace_stop_token token = co_await gyre::current_stop_token();
    co_return token.stop_requested();
  };
  gyre::inplace_stop_source source;
  EXPECT_FALSE(sync_wait(asked()));
  EXPECT_FALSE(sync_wait(asked(), source.get_token()));
  source.request_stop();
  EXPECT_TRUE(sync_wait(asked(), source.get_token()));
}

TEST(SyncWait, CoroutineMayOwnTheSourceOfItsToken) {
  auto source = std::make_shared<gyre::inplace_stop_source>();
  const gyre::inplace_stop_token token = source->get_token();
  const std::weak_ptr<gyre::inplace_stop_source> observer = source;
  const auto is_stopped = [](std::shared_ptr<gyre::inplace_stop_source>) -> task<bool> {
    const gyre::inplace_stop_token seen = co_await gyre::current_stop_token();
    co_return seen.stop_requested();
  };
  EXPECT_FALSE(sync_wait(is_stopped(std::move(source)), token));
  EXPECT_TRUE(observer.expired());
}

TEST(SyncWait, HasNoTimers) {
  auto timers = []() -> task<bool> {
    gyre::executor& own = co_await gyre::current_executor();
    co_return own.timers() != nullptr;
  };
  EXPECT_FALSE(sync_wait(timers()));
}

// Its destructor reads the context of its waiting coroutine, like that of an awaiter with a timer.
class lasts_for_ever {
 public:
  explicit lasts_for_ever(gyre::executor*& seen_at_end) noexcept : seen_(seen_at_end) {}
  lasts_for_ever(const lasts_for_ever&) = default;  // GCC moves awaiters
  ~lasts_for_ever() {
    if (context_ != nullptr) seen_ = context_->where;
  }
  static bool await_ready() noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> waiting) noexcept {
    context_ = &gyre::detail::context_of(waiting);
  }
  static void await_resume() noexcept {}

 private:
  gyre::executor*& seen_;
  const gyre::task_context* context_ = nullptr;
};

TEST(SyncWait, CoroutinesThatItGivesUpStillHaveTheirContext) {
  if (!gyre::detail::checks_deadlocks || has_a_thread_of_its_own) {
    GTEST_SKIP() << "this build waits for ever";
  }
  gyre::executor* at_start = nullptr;
  gyre::executor* at_end = nullptr;
  auto waits = [](gyre::executor*& first, gyre::executor*& last) -> task<> {
    first = &co_await gyre::current_executor();
    co_await lasts_for_ever(last);
  };
  EXPECT_THROW(sync_wait(waits(at_start, at_end)), std::system_error);
  EXPECT_NE(at_end, nullptr);
  EXPECT_EQ(at_end, at_start);
}

task<int> yields(int times) {
  int sum = 0;
  for (int i = 0; i < times; ++i) {
    co_await gyre::yield();
    sum += co_await ends_at(gyre::inline_executor(), 1);
  }
  co_return sum;
}

// Calls `run` in a process that the kernel kills if it makes any other system call than exit.
[[noreturn]] void without_system_calls(int (*run)()) {
  run();  // maps memory
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) ::_exit(1);
  const int result = run();
  ::syscall(SYS_exit, result);
  __builtin_trap();
}

TEST(SyncWaitDeathTest, MakesNoSystemCallIfNothingWaitsForOtherThreads) {
  if (has_a_thread_of_its_own) GTEST_SKIP() << "the process would outlive its last system call";
  EXPECT_EXIT(without_system_calls([] { return sync_wait(ends_at(gyre::inline_executor(), 42)); }),
              testing::ExitedWithCode(42), "");
  EXPECT_EXIT(without_system_calls([] { return sync_wait(yields(43)); }),
              testing::ExitedWithCode(43), "");
  // Shows that this check detects a system call.
  EXPECT_EXIT(without_system_calls([] { return static_cast<int>(::syscall(SYS_getpid)); }),
              testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace sync_wait_test
