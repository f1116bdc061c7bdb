// SPDX-License-Identifier: Apache-2.0
// Tests of the waits of all primitives: how they end, where they continue, and the state that a
// cancelled or abandoned wait leaves.
#include <gyre/sync/barrier.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/latch.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/sync/shared_mutex.hpp>
#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/stubborn_coroutines.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <system_error>
#include <utility>

namespace wait_test {
namespace {

using gyre::as_expected;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::sync_wait;
using gyre::task;
using gyre::test::foreign;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

// Each structure has a primitive in a state in which wait() waits; let_go() lets one waiter pass,
// which does not let the next waiter pass.
struct of_mutex {
  of_mutex() { EXPECT_TRUE(mutex.try_lock()); }
  ~of_mutex() { mutex.unlock(); }
  task<> wait() {
    gyre::mutex::guard passed = co_await mutex.lock();
    passed.release();
  }
  auto operation() { return mutex.lock(); }
  void let_go() { mutex.unlock(); }
  gyre::mutex mutex;
};

struct of_writer {
  of_writer() { EXPECT_TRUE(mutex.try_lock()); }
  ~of_writer() { mutex.unlock(); }
  task<> wait() {
    gyre::shared_mutex::guard passed = co_await mutex.lock();
    passed.release();
  }
  auto operation() { return mutex.lock(); }
  void let_go() { mutex.unlock(); }
  gyre::shared_mutex mutex;
};

// Each reader that passes becomes the writer for which the next reader waits.
struct of_reader {
  of_reader() { EXPECT_TRUE(mutex.try_lock()); }
  ~of_reader() { mutex.unlock(); }
  task<> wait() {
    gyre::shared_mutex::shared passed = co_await mutex.lock_shared();
    passed.unlock();
    EXPECT_TRUE(mutex.try_lock());
  }
  auto operation() { return mutex.lock_shared(); }
  void let_go() { mutex.unlock(); }
  gyre::shared_mutex mutex;
};

struct of_semaphore {
  task<> wait() { co_await semaphore.acquire(2); }
  auto operation() { return semaphore.acquire(2); }
  void let_go() { semaphore.release(2); }
  gyre::semaphore semaphore{1};
};

struct of_permit {
  task<> wait() {
    gyre::semaphore_permit passed = co_await semaphore.permit();
    passed.forget();
  }
  auto operation() { return semaphore.permit(); }
  void let_go() { semaphore.release(); }
  gyre::semaphore semaphore{0};
};

struct of_auto_reset_event {
  task<> wait() { co_await event.wait(); }
  auto operation() { return event.wait(); }
  void let_go() { event.set(); }
  gyre::auto_reset_event event;
};

struct of_barrier {
  task<> wait() { co_await barrier.arrive_and_wait(); }
  auto operation() { return barrier.arrive_and_wait(); }
  void let_go() { static_cast<void>(barrier.arrive()); }
  gyre::barrier<> barrier{2};
};

// The next two primitives let all waiters pass once they have let one pass.
struct of_manual_reset_event {
  task<> wait() { co_await event.wait(); }
  auto operation() { return event.wait(); }
  void let_go() { event.set(); }
  gyre::manual_reset_event event;
};

struct of_latch {
  task<> wait() { co_await latch.wait(); }
  auto operation() { return latch.wait(); }
  void let_go() {
    if (!latch.try_wait()) latch.count_down();
  }
  gyre::latch latch{1};
};

template <class Primitive>
constexpr bool stays_open = false;
template <>
constexpr bool stays_open<of_manual_reset_event> = true;
template <>
constexpr bool stays_open<of_latch> = true;

enum class outcome { none, passed, cancelled, other };

template <class Primitive>
task<> wait_for(Primitive& primitive, outcome& told) {
  try {
    co_await primitive.wait();
    told = outcome::passed;
  } catch (const gyre::operation_cancelled&) {
    told = outcome::cancelled;
  } catch (const std::system_error&) {
    told = outcome::other;
  }
}

// Waits if that is possible at once; true if the wait has passed.
template <class Primitive>
bool passes_now(Primitive& primitive) {
  inplace_stop_source stopped;
  stopped.request_stop();
  outcome told = outcome::none;
  sync_wait(wait_for(primitive, told), stopped.get_token());
  EXPECT_TRUE(told == outcome::passed || told == outcome::cancelled);
  return told == outcome::passed;
}

template <class Primitive>
class Wait : public testing::Test {
 protected:
  manual_executor here;
  Primitive primitive;
};
using primitives = testing::Types<of_mutex, of_writer, of_reader, of_semaphore, of_permit,
                                  of_manual_reset_event, of_auto_reset_event, of_latch, of_barrier>;
struct names {
  template <class Primitive>
  static std::string GetName(int at) {
    constexpr const char* of_type[] = {"mutex",
                                       "writer",
                                       "reader",
                                       "semaphore",
                                       "permit",
                                       "manual_reset_event",
                                       "auto_reset_event",
                                       "latch",
                                       "barrier"};
    return of_type[at];
  }
};
TYPED_TEST_SUITE(Wait, primitives, names);

TYPED_TEST(Wait, GoesOnThroughItsExecutorWhenLetGo) {
  outcome told = outcome::none;
  started waiting(this->here, wait_for(this->primitive, told));
  EXPECT_EQ(this->here.pending(), 0U);
  this->primitive.let_go();
  EXPECT_EQ(told, outcome::none) << "not within let_go()";
  EXPECT_EQ(this->here.run_all(), 1U);
  EXPECT_EQ(told, outcome::passed);
  EXPECT_EQ(passes_now(this->primitive), stays_open<TypeParam>);
}

TYPED_TEST(Wait, IsCancelledByAStop) {
  inplace_stop_source source;
  outcome told = outcome::none;
  started waiting(this->here, wait_for(this->primitive, told), source.get_token());
  source.request_stop();
  EXPECT_EQ(told, outcome::none) << "not within request_stop()";
  EXPECT_EQ(this->here.run_all(), 1U);
  EXPECT_EQ(told, outcome::cancelled);
  this->primitive.let_go();
  EXPECT_EQ(this->here.pending(), 0U);
  EXPECT_TRUE(passes_now(this->primitive)) << "what nobody took is there for the next";
}

TYPED_TEST(Wait, DoesNotBeginAfterAStop) {
  inplace_stop_source source;
  source.request_stop();
  outcome told = outcome::none;
  started waiting(this->here, wait_for(this->primitive, told), source.get_token());
  EXPECT_EQ(told, outcome::cancelled);
  this->primitive.let_go();
  EXPECT_TRUE(passes_now(this->primitive));
}

TYPED_TEST(Wait, ThatHasEndedIsNotCancelledAnyMore) {
  inplace_stop_source source;
  outcome told = outcome::none;
  started waiting(this->here, wait_for(this->primitive, told), source.get_token());
  this->primitive.let_go();
  source.request_stop();
  EXPECT_EQ(this->here.run_all(), 1U);
  EXPECT_EQ(told, outcome::passed);
}

TYPED_TEST(Wait, PassesInSpiteOfAStopIfItNeedNotWait) {
  this->primitive.let_go();
  EXPECT_TRUE(passes_now(this->primitive));
}

TYPED_TEST(Wait, PassesACancellationThroughAsExpected) {
  inplace_stop_source source;
  outcome told = outcome::none;
  auto expects = [&]() -> task<> {
    try {
      auto ended = co_await as_expected(this->primitive.operation());
      told = ended ? outcome::passed : outcome::other;
    } catch (const gyre::operation_cancelled&) {
      told = outcome::cancelled;
    }
  };
  started waiting(this->here, expects(), source.get_token());
  source.request_stop();
  this->here.run_all();
  EXPECT_EQ(told, outcome::cancelled);
}

TYPED_TEST(Wait, GivesWayWhenItsCancellationIsSwallowedAgainAndAgain) {
  inplace_stop_source source;
  source.request_stop();
  bool enough = false;
  int swallowed = 0;
  gyre::test::swallow_until_others_run(
      this->here, [this] { return this->primitive.wait(); }, swallowed, enough, source.get_token());
  this->here.run_all();
  EXPECT_TRUE(enough);
  EXPECT_GE(swallowed, 1);
}

TYPED_TEST(Wait, EndsALoopThatLogsErrorsWhenItIsStopped) {
  inplace_stop_source source;
  int errors = 0;
  auto loop = gyre::spawn_future(
      this->here, gyre::test::log_errors([this] { return this->primitive.wait(); }, errors),
      source.get_token());
  this->here.run_all();
  source.request_stop();
  this->here.run_all();
  EXPECT_EQ(loop.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(errors, 0);
}

TYPED_TEST(Wait, LeavesNothingBehindWhenItsCoroutineIsDestroyed) {
  inplace_stop_source source;
  outcome first = outcome::none;
  outcome second = outcome::none;
  {
    started dropped(this->here, wait_for(this->primitive, first), source.get_token());
  }
  started waiting(this->here, wait_for(this->primitive, second));
  source.request_stop();
  this->primitive.let_go();
  EXPECT_EQ(this->here.run_all(), 1U);
  EXPECT_EQ(first, outcome::none);
  EXPECT_EQ(second, outcome::passed);
}

TYPED_TEST(Wait, AForeignCoroutineResumesInline) {
  bool passed = false;
  auto waits = [](TypeParam& on, bool& told) -> foreign {
    auto operation = on.operation();
    const auto ended = co_await as_expected(std::move(operation));
    told = ended.has_value();
  };
  waits(this->primitive, passed);
  EXPECT_FALSE(passed);
  this->primitive.let_go();
  EXPECT_TRUE(passed);
  // The mutexes of this test are locked at the end.
  if constexpr (requires { this->primitive.mutex; }) {
    EXPECT_TRUE(this->primitive.mutex.try_lock());
  }
}

TYPED_TEST(Wait, CompletedAndCancelledAtOnceEndsOneWayOrTheOther) {
  thread_executor waiters;
  thread_executor completer;
  constexpr int rounds = 500;
  for (int round = 0; round < rounds; ++round) {
    TypeParam contended;
    inplace_stop_source source;
    outcome told = outcome::none;
    auto waiting = spawn_future(waiters, wait_for(contended, told), source.get_token());
    auto lets_go = [](TypeParam& on) -> task<> {
      on.let_go();
      co_return;
    };
    auto completing = spawn_future(completer, lets_go(contended));
    source.request_stop();
    waiting.get();
    completing.get();
    ASSERT_TRUE(told == outcome::passed || told == outcome::cancelled);
    EXPECT_EQ(passes_now(contended), told == outcome::cancelled || stays_open<TypeParam>);
  }
}

}  // namespace
}  // namespace wait_test
