// SPDX-License-Identifier: Apache-2.0
// Tests of shared_mutex beyond what wait_test.cpp tests of all primitives.
#include <gyre/sync/shared_mutex.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <tests/support/thread_executor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace shared_mutex_test {
namespace {

using gyre::inplace_stop_source;
using gyre::shared_mutex;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::test::unless_sanitized;
using gyre::testing::manual_executor;

static_assert(sizeof(shared_mutex) == 24);
constinit shared_mutex static_mutex;  // needs no start-up code

// Logs its name in upper case when it has locked the mutex, in lower case before it unlocks.
task<> reads(shared_mutex& mutex, std::string& log, char name) {
  const shared_mutex::shared guard = co_await mutex.lock_shared();
  log += static_cast<char>(name - 'a' + 'A');
  co_await gyre::yield();
  log += name;
}
task<> writes(shared_mutex& mutex, std::string& log, char name) {
  const shared_mutex::guard guard = co_await mutex.lock();
  log += static_cast<char>(name - 'a' + 'A');
  co_await gyre::yield();
  log += name;
}

class SharedMutex : public testing::Test {
 protected:
  manual_executor here;
  shared_mutex mutex;
  std::string log;
};

TEST_F(SharedMutex, IsHeldByManyReadersOrOneWriter) {
  ASSERT_TRUE(mutex.try_lock_shared());
  EXPECT_TRUE(mutex.try_lock_shared());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock_shared();
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock_shared();
  shared_mutex::guard writer(mutex, std::try_to_lock);
  EXPECT_TRUE(writer);
  EXPECT_FALSE(mutex.try_lock());
  EXPECT_FALSE(shared_mutex::shared(mutex, std::try_to_lock));
}

TEST_F(SharedMutex, ReadersGoInTogether) {
  gyre::spawn(here, reads(mutex, log, 'a'));
  gyre::spawn(here, reads(mutex, log, 'b'));
  here.run_all();
  EXPECT_EQ(log, "ABab");
}

TEST_F(SharedMutex, ReadersWaitBehindAWriterSoThatItDoesNotStarve) {
  gyre::spawn(here, reads(mutex, log, 'a'));
  gyre::spawn(here, writes(mutex, log, 'w'));
  gyre::spawn(here, reads(mutex, log, 'b'));
  gyre::spawn(here, reads(mutex, log, 'c'));
  gyre::spawn(here, writes(mutex, log, 'x'));
  gyre::spawn(here, reads(mutex, log, 'd'));
  here.run_all();
  EXPECT_EQ(log, "AaWwBCbcXxDd");
}

TEST_F(SharedMutex, TryingToReadDoesNotOvertakeAWriter) {
  ASSERT_TRUE(mutex.try_lock_shared());
  started writer(here, writes(mutex, log, 'w'));
  EXPECT_FALSE(mutex.try_lock_shared());
  mutex.unlock_shared();
  here.run_all();
  EXPECT_EQ(log, "Ww");
}

TEST_F(SharedMutex, ReadersGoOnWhenTheWriterBeforeThemGivesUp) {
  inplace_stop_source source;
  auto gives_up = [&]() -> task<> {
    static_cast<void>(co_await mutex.lock());
    ADD_FAILURE() << "was not cancelled";
  };
  ASSERT_TRUE(mutex.try_lock_shared());
  started writer(here, gives_up(), source.get_token());
  started first(here, reads(mutex, log, 'a'));
  started second(here, reads(mutex, log, 'b'));
  EXPECT_EQ(log, "");
  source.request_stop();
  here.run_all();
  EXPECT_EQ(log, "ABab");
  mutex.unlock_shared();
}

TEST_F(SharedMutex, ReadersGoOnWhenTheWriterBeforeThemIsDestroyed) {
  ASSERT_TRUE(mutex.try_lock_shared());
  started writer(here, writes(mutex, log, 'w'));
  started reader(here, reads(mutex, log, 'a'));
  writer.drop();
  here.run_all();
  EXPECT_EQ(log, "Aa");
  mutex.unlock_shared();
}

TEST_F(SharedMutex, KeepsReadersAndWritersOfSeveralThreadsApart) {
  const int times = unless_sanitized(50'000);
  int left = 0;
  int right = 0;
  auto reads_often = [&]() -> task<> {
    for (int i = 0; i < times; ++i) {
      const shared_mutex::shared guard = co_await mutex.lock_shared();
      EXPECT_EQ(left, right);
    }
  };
  auto writes_often = [&]() -> task<> {
    for (int i = 0; i < times; ++i) {
      const shared_mutex::guard guard = co_await mutex.lock();
      ++left;
      ++right;
    }
  };
  thread_executor threads[3];
  std::vector<std::future<void>> ends;
  for (auto& thread : threads) {
    ends.push_back(gyre::spawn_future(thread, reads_often()));
    ends.push_back(gyre::spawn_future(thread, writes_often()));
  }
  for (auto& end : ends) end.get();
  EXPECT_EQ(left, 3 * times);
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

#if !defined(NDEBUG) && defined(GTEST_HAS_DEATH_TEST)
TEST(SharedMutexDeathTest, DestroyedWhileItIsLockedSaysSo) {
  auto forgets = [] {
    shared_mutex locked;
    static_cast<void>(locked.try_lock_shared());
  };
  EXPECT_DEATH(forgets(), "destroyed in use");
}
#endif

}  // namespace
}  // namespace shared_mutex_test
