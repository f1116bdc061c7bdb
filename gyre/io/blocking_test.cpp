// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/blocking.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/blocking_pool.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/droppable.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace blocking_test {
namespace {

using namespace std::chrono_literals;
using gyre::inplace_stop_source;
using gyre::inplace_stop_token;
using gyre::task;
using gyre::io::blocking;

TEST(Blocking, RunsOnAnotherThreadAndResumesOnTheLoop) {
  gyre::loop loop;
  auto work = [](gyre::loop& own) -> task<std::thread::id> {
    auto calling = blocking([] { return std::this_thread::get_id(); });
    const std::thread::id caller = co_await std::move(calling);
    EXPECT_TRUE(own.in_loop_thread());
    co_return caller;
  };
  EXPECT_NE(gyre::sync_wait(loop, work(loop)), std::this_thread::get_id());
}

TEST(Blocking, PassesArgumentsAndReturnsMoveOnlyResults) {
  auto add = [](std::unique_ptr<int> number, const std::string& text) {
    return std::make_unique<std::string>(text + std::to_string(*number));
  };
  const std::string name = "number ";
  auto calling = blocking(add, std::make_unique<int>(7), name);
  EXPECT_EQ(*gyre::sync_wait(std::move(calling)), "number 7");
}

int twice(int number) { return 2 * number; }
struct counter {
  int count = 1;
  int add(int more) { return count += more; }
};

TEST(Blocking, CallsFunctionsMembersAndReferences) {
  EXPECT_EQ(gyre::sync_wait(blocking(twice, 21)), 42);
  EXPECT_EQ(gyre::sync_wait(blocking(&twice, 21)), 42);
  counter own;
  EXPECT_EQ(gyre::sync_wait(blocking(&counter::add, &own, 2)), 3);
  int number = 0;
  gyre::sync_wait(blocking([](int& changed) { changed = 5; }, std::ref(number)));
  EXPECT_EQ(number, 5);
}

struct immovable_once {
  explicit immovable_once(int number) : value(number) {}
  immovable_once(immovable_once&& other) = default;
  immovable_once& operator=(immovable_once&&) = delete;
  const int value;
};

TEST(Blocking, ReturnsObjectsThatCannotBeAssigned) {
  EXPECT_EQ(gyre::sync_wait(blocking([] { return immovable_once(3); })).value, 3);
}

TEST(Blocking, ThrowsTheExceptionOfTheFunction) {
  const auto fail = [](const char* text) { throw std::runtime_error(text); };
  try {
    gyre::sync_wait(blocking(fail, "the disk is gone"));
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
  }
}

TEST(Blocking, AResultWhoseMoveThrowsIsAnError) {
  struct fails_to_move {
    fails_to_move() = default;
    // NOLINTNEXTLINE(performance-noexcept-move-constructor)
    fails_to_move(fails_to_move&&) { throw std::logic_error("moved"); }
  };
  EXPECT_THROW(gyre::sync_wait(blocking([] { return fails_to_move(); })), std::logic_error);
}

TEST(Blocking, ACancellationWithinTheFunctionIsNotOneOfTheCoroutine) {
  const auto cancelled_inside = [] { throw gyre::operation_cancelled(); };
  auto work = [&]() -> task<std::error_code> {
    try {
      co_await blocking(cancelled_inside);
    } catch (const std::system_error& error) {
      co_return error.code();
    }
    co_return std::error_code();
  };
  EXPECT_EQ(gyre::sync_wait(work()), std::errc::operation_canceled);
}

TEST(Blocking, DestroysTheFunctionOnTheCoroutinesThread) {
  struct noted {
    explicit noted(std::thread::id& place) : destroyed(&place) {}
    noted(noted&& other) noexcept : destroyed(std::exchange(other.destroyed, nullptr)) {}
    noted& operator=(noted&&) = delete;
    ~noted() {
      if (destroyed != nullptr) *destroyed = std::this_thread::get_id();
    }
    void operator()() const {}
    std::thread::id* destroyed;
  };
  std::thread::id place;
  gyre::sync_wait(blocking(noted(place)));
  EXPECT_EQ(place, std::this_thread::get_id());
}

// --- Stop ---

// Occupies all threads of the pool until it is destroyed.
class full_pool {
 public:
  full_pool() {
    for (std::size_t i = 0; i < gyre::io::blocking_pool_workers; ++i) {
      calls_.push_back(std::jthread([this] {
        gyre::sync_wait(blocking([this] {
          begun_.count_down();
          released_.wait();
        }));
      }));
    }
    begun_.wait();
  }
  ~full_pool() { released_.count_down(); }

 private:
  std::latch begun_{gyre::io::blocking_pool_workers};
  std::latch released_{1};
  std::vector<std::jthread> calls_;
};

TEST(Blocking, AStopWithdrawsACallThatHasNotBegun) {
  bool was_called = false;
  {
    const full_pool busy;
    gyre::loop loop;
    auto waiting = gyre::spawn_joinable(loop, gyre::as_task(blocking([&] { was_called = true; })));
    while (loop.poll()) {
    }
    EXPECT_FALSE(waiting.is_done());
    waiting.request_stop();
    EXPECT_THROW(gyre::sync_wait(loop, waiting.join()), std::system_error);
  }
  gyre::sync_wait(blocking([] {}));
  EXPECT_FALSE(was_called);
}

TEST(Blocking, AStoppedCoroutineCallsNothing) {
  inplace_stop_source stop;
  stop.request_stop();
  bool was_called = false;
  EXPECT_THROW(gyre::sync_wait(blocking([&] { was_called = true; }), stop.get_token()),
               std::system_error);
  EXPECT_FALSE(was_called);
}

TEST(Blocking, ACallThatHasBegunReturnsItsResultInSpiteOfAStop) {
  inplace_stop_source stop;
  const auto call = [&] {
    stop.request_stop();
    return 7;
  };
  EXPECT_EQ(gyre::sync_wait(blocking(call), stop.get_token()), 7);
}

TEST(Blocking, TheFunctionMayLookAtTheStopToken) {
  inplace_stop_source stop;
  std::latch begun(1);
  const std::jthread stopping([&] {
    begun.wait();
    stop.request_stop();
  });
  const auto until_stopped = [&](inplace_stop_token token, int result) {
    begun.count_down();
    while (!token.stop_requested()) std::this_thread::yield();
    return result;
  };
  EXPECT_EQ(gyre::sync_wait(blocking(until_stopped, 7), stop.get_token()), 7);
}

TEST(Blocking, ATimeLimitEndsTheWaitForAThread) {
  const full_pool busy;
  gyre::loop loop;
  auto limited = gyre::with_timeout(blocking([] {}), 1ms);
  EXPECT_THROW(gyre::sync_wait(loop, std::move(limited)), std::system_error);
}

// --- Destruction ---

template <class Function>
gyre::test::droppable coroutine_that_calls(gyre::executor&, Function function) {
  auto calling = blocking(std::move(function));
  co_await std::move(calling);
}

TEST(Blocking, TheDestructionOfTheCoroutineWithdrawsACallThatHasNotBegun) {
  gyre::loop loop;
  gyre::executor& here = loop;
  bool was_called = false;
  {
    const full_pool busy;
    auto waiting = coroutine_that_calls(here, [&] { was_called = true; });
    waiting.drop();
  }
  gyre::sync_wait(blocking([] {}));
  EXPECT_FALSE(was_called);
}

TEST(Blocking, TheDestructionOfTheCoroutineWaitsForACallThatHasBegun) {
  gyre::loop loop;
  gyre::executor& here = loop;
  for (int round = 0; round < 100; ++round) {
    std::latch begun(1);
    std::atomic<bool> has_ended = false;
    auto waiting = coroutine_that_calls(here, [&] {
      begun.count_down();
      std::this_thread::yield();
      has_ended = true;
    });
    begun.wait();
    waiting.drop();
    EXPECT_TRUE(has_ended);
    while (loop.poll()) {
    }
  }
}

TEST(Blocking, ManyCallsAtTheSameTimeKeepTheirResults) {
  gyre::loop loop;
  std::vector<task<int>> calls;
  for (int i = 0; i < 1000; ++i) calls.push_back(gyre::as_task(blocking(twice, i)));
  const std::vector<int> results = gyre::sync_wait(loop, gyre::when_all(std::move(calls)));
  ASSERT_EQ(results.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], 2 * i);
}

}  // namespace
}  // namespace blocking_test
