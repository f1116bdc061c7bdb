// SPDX-License-Identifier: Apache-2.0
// Tests of futures without a pool: the tests run, or drop, the tasks themselves.
#include <gyre/pool/future.hpp>

#include <gyre/pool/detail/helper.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/stubborn_coroutines.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace future_test {
namespace {

using namespace std::chrono_literals;
using gyre::future;
using gyre::detail::droppable_operation;
using gyre::detail::make_future_task;

template <class F>
std::error_code error_of(F&& function) {
  try {
    function();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

// A queue of tasks that the test, or a waiting thread, runs in the order of submission.
class hand_driven_pool : public gyre::detail::helper {
 public:
  template <class F>
  auto submit(F&& function) {
    auto made = make_future_task(std::forward<F>(function));
    waiting_.push_back(&made.task);
    return std::move(made.result);
  }
  droppable_operation& take() {
    droppable_operation& next = *waiting_.front();
    waiting_.pop_front();
    return next;
  }
  void run_one() { take().execute(); }
  bool help_once() noexcept override {
    if (waiting_.empty()) return false;
    run_one();
    return true;
  }
  std::size_t size() const { return waiting_.size(); }

 private:
  std::deque<droppable_operation*> waiting_;
};

class Future : public testing::Test {
 protected:
  hand_driven_pool pool_;
};

TEST_F(Future, GivesWhatTheTaskReturns) {
  future<int> answer = pool_.submit([] { return 42; });
  EXPECT_TRUE(answer.valid());
  EXPECT_FALSE(answer.ready());
  pool_.run_one();
  EXPECT_TRUE(answer.ready());
  EXPECT_EQ(answer.get(), 42);
}

TEST_F(Future, GivesMoveOnlyValuesReferencesAndNothing) {
  int there = 1;
  auto owned = pool_.submit([] { return std::make_unique<int>(2); });
  future<int&> referred = pool_.submit([&]() -> int& { return there; });
  future<> nothing = pool_.submit([&] { there = 3; });
  while (pool_.help_once()) {
  }
  EXPECT_EQ(*owned.get(), 2);
  EXPECT_EQ(&referred.get(), &there);
  nothing.get();
  EXPECT_EQ(there, 3);
}

TEST_F(Future, AnExceptionPtrIsAValueToo) {
  auto value = pool_.submit([] { return std::make_exception_ptr(1); });
  pool_.run_one();
  EXPECT_THROW(std::rethrow_exception(value.get()), int);
}

TEST_F(Future, ThrowsWhatTheTaskThrew) {
  future<int> failed = pool_.submit([]() -> int { throw std::runtime_error("no"); });
  pool_.run_one();
  EXPECT_TRUE(failed.ready());
  EXPECT_THROW(failed.get(), std::runtime_error);
  EXPECT_FALSE(failed.valid());
}

TEST_F(Future, TaskThatWasDroppedWasCancelled) {
  auto held = std::make_shared<int>();
  auto dropped = pool_.submit([held] { return *held; });
  pool_.take().drop();
  EXPECT_TRUE(dropped.ready());
  EXPECT_EQ(held.use_count(), 1) << "what the callable held is let go";
  EXPECT_EQ(error_of([&] { dropped.get(); }), std::errc::operation_canceled);
}

TEST_F(Future, CallableIsGoneBeforeTheEndIsKnown) {
  auto held = std::make_shared<int>();
  auto ended = pool_.submit([held] {});
  pool_.run_one();
  EXPECT_EQ(held.use_count(), 1);
  ended.get();
}

TEST_F(Future, IsGoodForOneResult) {
  future<int> answer = pool_.submit([] { return 1; });
  pool_.run_one();
  answer.get();
  EXPECT_FALSE(answer.valid());
  EXPECT_THROW(answer.get(), std::logic_error);
  EXPECT_THROW(answer.wait(), std::logic_error);
  EXPECT_THROW(answer.wait_for(1s), std::logic_error);
  EXPECT_THROW(static_cast<void>(answer.ready()), std::logic_error);
  EXPECT_THROW(static_cast<void>(gyre::sync_wait(std::move(answer))), std::logic_error);
}

TEST_F(Future, MovesAndLetsGoOfWhatItHad) {
  future<int> first = pool_.submit([] { return 1; });
  future<int> second = pool_.submit([] { return 2; });
  first = std::move(second);
  EXPECT_FALSE(second.valid());  // NOLINT(bugprone-use-after-move)
  future<int>& itself = first;
  first = std::move(itself);
  while (pool_.help_once()) {
  }
  EXPECT_EQ(first.get(), 2);
}

TEST_F(Future, DroppedLetsTheTaskGoOn) {
  bool ran = false;
  static_cast<void>(pool_.submit([&] { ran = true; }));
  pool_.run_one();
  EXPECT_TRUE(ran);
}

TEST_F(Future, DroppedWithAResultDestroysIt) {
  auto held = std::make_shared<int>();
  auto ended = pool_.submit([held] { return held; });
  pool_.run_one();
  EXPECT_EQ(held.use_count(), 2);
  ended = {};
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Future, OverAlignedCallablesAndResultsAreInTheirPlaces) {
  struct alignas(64) line {
    int value = 7;
    bool in_place() const { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0; }
  };
  future<line> result = pool_.submit([given = line()] {
    EXPECT_TRUE(given.in_place());
    return given;
  });
  pool_.run_one();
  EXPECT_EQ(result.get().value, 7);
}

TEST_F(Future, TimedWaitSaysWhetherTheTaskEnded) {
  future<int> answer = pool_.submit([] { return 1; });
  EXPECT_FALSE(answer.wait_for(0s));
  EXPECT_FALSE(answer.wait_for(2ms));
  EXPECT_FALSE(answer.wait_for(-1h));
  EXPECT_FALSE(answer.wait_until(gyre::steady_time::min()));
  pool_.run_one();
  EXPECT_TRUE(answer.wait_for(0s));
  EXPECT_TRUE(answer.wait_until(gyre::steady_time::min()));
  EXPECT_EQ(answer.get(), 1);
}

TEST_F(Future, WaitsForAnotherThread) {
  for (int round = 0; round < 300; ++round) {
    future<int> answer = pool_.submit([round] { return round; });
    droppable_operation& task = pool_.take();
    const std::jthread runs([&] { task.execute(); });
    if (round % 3 == 0) answer.wait_for(std::chrono::microseconds(round));
    if (round % 2 == 0) answer.wait();
    EXPECT_EQ(answer.get(), round);
  }
}

TEST_F(Future, IsDroppedWhileTheTaskEnds) {
  for (int round = 0; round < 300; ++round) {
    auto held = std::make_shared<int>();
    auto made = make_future_task([held] { return held; });
    const std::jthread runs([&] { round % 2 == 0 ? made.task.execute() : made.task.drop(); });
    made.result = {};
  }
}

TEST_F(Future, AWorkerThatWaitsRunsOtherTasks) {
  const gyre::detail::helping_scope worker(pool_);
  int others = 0;
  static_cast<void>(pool_.submit([&] { ++others; }));
  future<int> last = pool_.submit([] { return 3; });
  static_cast<void>(pool_.submit([&] { ++others; }));
  EXPECT_EQ(last.get(), 3);
  EXPECT_EQ(others, 1);
  EXPECT_EQ(pool_.size(), 1) << "no more than it takes";
  pool_.run_one();
}

TEST_F(Future, TasksWaitForTasksOfTheirOwnWithoutAnotherThread) {
  const gyre::detail::helping_scope worker(pool_);
  const std::function<int(int)> fibonacci = [&](int n) -> int {
    if (n < 2) return n;
    future<int> one = pool_.submit([&, n] { return fibonacci(n - 1); });
    future<int> other = pool_.submit([&, n] { return fibonacci(n - 2); });
    return one.get() + other.get();
  };
  EXPECT_EQ(fibonacci(10), 55);
}

TEST_F(Future, WorkThatComesWhileAWorkerSleepsIsHelpedAllTheSame) {
  // The worker finds the awaited task only at a later look, as if another thread had posted it.
  struct late final : gyre::detail::helper {
    bool help_once() noexcept override {
      if (++looks < 5) return false;
      task->execute();
      return true;
    }
    int looks = 0;
    droppable_operation* task = nullptr;
  } helper;
  future<int> answer = pool_.submit([] { return 1; });
  helper.task = &pool_.take();
  const gyre::detail::helping_scope worker(helper);
  EXPECT_EQ(answer.get(), 1);
  EXPECT_EQ(helper.looks, 5);
}

TEST_F(Future, AWaitForOneselfIsADeadlock) {
  const gyre::detail::helping_scope worker(pool_);
  future<int> outer;
  std::error_code direct;
  std::error_code nested;
  outer = pool_.submit([&] {
    direct = error_of([&] { outer.wait(); });
    EXPECT_FALSE(outer.wait_for(1us)) << "which ends";
    future<> inner = pool_.submit([&] { nested = error_of([&] { outer.wait(); }); });
    inner.get();
    return 1;
  });
  pool_.run_one();
  EXPECT_EQ(direct, std::errc::resource_deadlock_would_occur);
  EXPECT_EQ(nested, std::errc::resource_deadlock_would_occur);
  EXPECT_EQ(outer.get(), 1);
}

// Each wait runs the next task above itself; the last one waits for the first.
TEST_F(Future, AWaitForATaskFarBelowIsADeadlock) {
  const gyre::detail::helping_scope worker(pool_);
  constexpr std::size_t length = 1000;
  std::vector<future<int>> chain(length);
  std::size_t failed = 0;
  for (std::size_t each = 0; each < length; ++each) {
    chain[each] = pool_.submit([&, each] {
      const std::error_code error = error_of([&] { chain[(each + 1) % length].wait(); });
      failed += error == std::errc::resource_deadlock_would_occur ? 1 : 0;
      return static_cast<int>(each);
    });
  }
  pool_.run_one();
  EXPECT_EQ(failed, 1U) << "only the wait that closes the circle";
  EXPECT_EQ(chain[1].get(), 1);
}

TEST_F(Future, HelpersNest) {
  EXPECT_EQ(gyre::detail::current_helper(), nullptr);
  {
    const gyre::detail::helping_scope outer(pool_);
    hand_driven_pool other;
    {
      const gyre::detail::helping_scope inner(other);
      EXPECT_EQ(gyre::detail::current_helper(), &other);
    }
    EXPECT_EQ(gyre::detail::current_helper(), &pool_);
  }
  EXPECT_EQ(gyre::detail::current_helper(), nullptr);
}

// Coroutines that wait.

class FutureAwaited : public Future {
 protected:
  gyre::task<> await(future<int> answer) {
    try {
      value_ = co_await std::move(answer);
    } catch (const std::system_error& error) {
      error_ = error.code();
    } catch (const gyre::operation_cancelled&) {
      error_ = std::make_error_code(std::errc::operation_canceled);
    }
    ended_ = true;
  }
  void start(future<int> answer) {
    gyre::spawn(executor_, await(std::move(answer)), {.stop = source_.get_token()});
    executor_.run_all();
  }

  gyre::inplace_stop_source source_;
  gyre::testing::manual_executor executor_;
  bool ended_ = false;
  int value_ = 0;
  std::error_code error_;
};

TEST_F(FutureAwaited, GoesOnOnItsOwnExecutor) {
  start(pool_.submit([] { return 42; }));
  pool_.run_one();
  EXPECT_FALSE(ended_);
  executor_.run_all();
  EXPECT_EQ(value_, 42);
}

TEST_F(FutureAwaited, NeedNotWaitForATaskThatHasEnded) {
  future<int> answer = pool_.submit([] { return 42; });
  pool_.run_one();
  start(std::move(answer));
  EXPECT_TRUE(ended_);
  EXPECT_EQ(executor_.posts(), 1) << "the start";
}

TEST_F(FutureAwaited, ThatIsStoppedEndsALoopThatLogsErrors) {
  const auto wait = [this]() -> gyre::task<> {
    future<int> answer = pool_.submit([] { return 42; });
    co_await std::move(answer);
  };
  int errors = 0;
  gyre::spawn(executor_, gyre::test::log_errors(wait, errors), {.stop = source_.get_token()});
  executor_.run_all();
  source_.request_stop();
  EXPECT_EQ(executor_.run_all(), 1U);
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(executor_.pending(), 0U);
}

TEST_F(FutureAwaited, LearnsThatTheTaskWasDropped) {
  start(pool_.submit([] { return 42; }));
  pool_.take().drop();
  executor_.run_all();
  EXPECT_EQ(error_, std::errc::operation_canceled);
}

TEST_F(FutureAwaited, AskedToStopLetsTheTaskGoOn) {
  bool ran = false;
  start(pool_.submit([&] {
    ran = true;
    return 42;
  }));
  source_.request_stop();
  EXPECT_FALSE(ended_) << "goes on in the executor, not in request_stop()";
  executor_.run_all();
  EXPECT_EQ(error_, std::errc::operation_canceled);
  pool_.run_one();
  EXPECT_TRUE(ran);
}

TEST_F(FutureAwaited, AskedToStopBeforeDoesNotWait) {
  source_.request_stop();
  start(pool_.submit([] { return 42; }));
  EXPECT_EQ(error_, std::errc::operation_canceled);
  pool_.run_one();
}

TEST_F(FutureAwaited, AskedToStopBeforeTakesAResultThatIsThere) {
  source_.request_stop();
  future<int> answer = pool_.submit([] { return 42; });
  pool_.run_one();
  start(std::move(answer));
  EXPECT_EQ(value_, 42);
}

TEST_F(FutureAwaited, WithoutAnExecutorGoesOnWhereTheTaskEnds) {
  gyre::spawn(gyre::inline_executor(), await(pool_.submit([] { return 42; })));
  EXPECT_FALSE(ended_);
  pool_.run_one();
  EXPECT_EQ(value_, 42);
}

TEST_F(FutureAwaited, MayBeDestroyedWhileItWaits) {
  {
    future<int> answer = pool_.submit([] { return 42; });
    auto awaiter = std::move(answer).operator co_await();
    EXPECT_FALSE(awaiter.await_ready());
    EXPECT_TRUE(awaiter.await_suspend(std::noop_coroutine()));
  }
  pool_.run_one();
}

TEST_F(FutureAwaited, RacesTheEndWithAStop) {
  gyre::test::thread_executor home;
  for (int round = 0; round < 300; ++round) {
    gyre::inplace_stop_source source;
    auto made = make_future_task([round] { return round; });
    const std::jthread stops([&] { source.request_stop(); });
    const std::jthread ends(
        [&, &task = made.task] { round % 4 == 0 ? task.drop() : task.execute(); });
    const std::error_code error = error_of([&] {
      EXPECT_EQ(gyre::sync_wait(gyre::on(home, std::move(made.result)), source.get_token()), round);
    });
    EXPECT_TRUE(!error || error == std::errc::operation_canceled) << error.message();
  }
}

}  // namespace
}  // namespace future_test
