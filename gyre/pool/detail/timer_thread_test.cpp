// SPDX-License-Identifier: Apache-2.0
// Tests of timers that expire on any of several threads, and of waits with timers, which were
// written for the single thread of a loop.
#include <gyre/pool/detail/timer_thread.hpp>

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/select.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>
#include <system_error>
#include <thread>
#include <vector>

namespace timer_thread_test {
namespace {

using namespace std::chrono_literals;
using gyre::steady_time;
using gyre::task;
using gyre::timer_operation;
using gyre::detail::monotonic_now;
using gyre::detail::timer_thread;
using std::chrono::nanoseconds;

// Two threads that share a queue.
class two_threads final : public gyre::executor {
 public:
  two_threads() = default;
  two_threads(const two_threads&) = delete;
  two_threads& operator=(const two_threads&) = delete;
  ~two_threads() { end(); }

  // Stops the timers, runs the posted operations, and ends the threads.
  void end() {
    timers_.stop();
    for (std::jthread& each : threads_) each.request_stop();
    for (std::jthread& each : threads_) {
      if (each.joinable()) each.join();
    }
  }

  void post(gyre::operation& op) noexcept override {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(op);
    posted_.notify_one();
  }
  [[gnu::noinline]] bool running_here() const noexcept override { return here == this; }
  gyre::timer_service* timers() noexcept override { return timers_.ensure_started(); }

  timer_thread& clockwork() noexcept { return timers_; }

 private:
  void run(const std::stop_token& drained) {
    here = this;
    std::unique_lock lock(mutex_);
    while (posted_.wait(lock, drained, [this] { return !waiting_.empty(); })) {
      gyre::operation& next = *waiting_.pop_front();
      lock.unlock();
      next.execute();
      lock.lock();
    }
  }

  static inline constinit thread_local const two_threads* here = nullptr;

  timer_thread timers_{*this, "timers"};
  std::mutex mutex_;
  std::condition_variable_any posted_;
  gyre::intrusive_queue<gyre::operation> waiting_;
  std::array<std::jthread, 2> threads_{
      std::jthread([this](const std::stop_token& drained) { run(drained); }),
      std::jthread([this](const std::stop_token& drained) { run(drained); })};
};

// Calls a function when it expires.
template <class F>
struct calling final : timer_operation {
  explicit calling(F called)
      : timer_operation([](timer_operation& self) { static_cast<calling&>(self).function_(); }),
        function_(called) {}
  F function_;
};

std::size_t threads_of_program() {
  std::filesystem::directory_iterator each("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(each), end(each)));
}

class TimerThread : public testing::Test {
 protected:
  gyre::timer_service& timers() { return *pool_.timers(); }

  // Runs all tasks on the pool, to their ends.
  void run_all(std::vector<task<>> tasks) {
    std::latch ended(static_cast<std::ptrdiff_t>(tasks.size()));
    for (task<>& each : tasks) {
      gyre::spawn(pool_, [](task<> work, std::latch& done) -> task<> {
        co_await std::move(work);
        done.count_down();
      }(std::move(each), ended));
    }
    ended.wait();
  }
  template <class Make>
  void run_many(int number, Make make) {
    std::vector<task<>> tasks;
    for (int i = 0; i < number; ++i) tasks.push_back(make(i));
    run_all(std::move(tasks));
  }

  two_threads pool_;
};

TEST_F(TimerThread, TakesAThreadOnlyOnceItIsUsed) {
  const std::size_t before = threads_of_program();
  EXPECT_EQ(pool_.clockwork().pending(), 0);
  EXPECT_EQ(threads_of_program(), before);
  EXPECT_EQ(pool_.timers(), &pool_.clockwork());
  EXPECT_EQ(pool_.timers(), &pool_.clockwork());
  EXPECT_EQ(threads_of_program(), before + 1);
}

TEST_F(TimerThread, ExpiresOnAThreadOfTheExecutorAndNotBeforeItsTime) {
  for (const nanoseconds delay : {nanoseconds(2ms), 1ns, -1ns, nanoseconds::min() / 2}) {
    std::binary_semaphore expired(0);
    steady_time at{};
    bool there = false;
    calling timer([&] {
      at = monotonic_now();
      there = pool_.running_here();
      expired.release();
    });
    const steady_time deadline = monotonic_now() + delay;
    timers().start_timer(timer, deadline);
    expired.acquire();
    EXPECT_GE(at, deadline);
    EXPECT_TRUE(there);
  }
}

TEST_F(TimerThread, AnEarlierDeadlineWakesIt) {
  std::latch expired(1);
  calling late([] { ADD_FAILURE() << "an hour early"; });
  calling soon([&] { expired.count_down(); });
  timers().start_timer(late, monotonic_now() + 1h);
  timers().start_timer(soon, monotonic_now() + 1ms);
  expired.wait();
  EXPECT_TRUE(timers().cancel_timer(late));
}

TEST_F(TimerThread, StartedAgainCountsFromThen) {
  std::latch expired(1);
  calling timer([&] { expired.count_down(); });
  timers().start_timer(timer, monotonic_now() + 1h);
  timers().start_timer(timer, monotonic_now() + 1ms);
  EXPECT_EQ(pool_.clockwork().pending(), 1);
  expired.wait();
  EXPECT_FALSE(timers().cancel_timer(timer));
}

TEST_F(TimerThread, OneThatTakesLongHoldsUpNoOther) {
  std::latch both(2);
  calling one([&] { both.arrive_and_wait(); });
  calling other([&] { both.arrive_and_wait(); });
  const steady_time deadline = monotonic_now() + 1ms;
  timers().start_timer(one, deadline);
  timers().start_timer(other, deadline);
  both.wait();
  pool_.end();  // a callback may still be about to return from the latch
}

TEST_F(TimerThread, MayStartItselfAgain) {
  std::latch ticks(50);
  struct ticker final : timer_operation {
    ticker(gyre::timer_service& by, std::latch& to)
        : timer_operation([](timer_operation& self) { static_cast<ticker&>(self).tick(); }),
          timers(by),
          ticks_left(to) {}
    void tick() {
      if (++count < 50) timers.start_timer(*this, timers.now() + 20us);
      ticks_left.count_down();
    }
    gyre::timer_service& timers;
    std::latch& ticks_left;
    int count = 0;
  } timer(timers(), ticks);
  timer.tick();
  ticks.wait();
}

// Each timer either expires or is cancelled, whichever is first.
TEST_F(TimerThread, CancellingIsExact) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> expired = 0;
    auto count = [&] { ++expired; };
    std::array<calling<decltype(count)>, 4> some{calling(count), calling(count), calling(count),
                                                 calling(count)};
    const steady_time deadline = monotonic_now() + std::chrono::microseconds(round);
    for (auto& each : some) timers().start_timer(each, deadline);
    while (round % 2 == 0 && monotonic_now() < deadline) std::this_thread::yield();
    int cancelled = 0;
    for (auto& each : some) cancelled += timers().cancel_timer(each) ? 1 : 0;
    while (expired + cancelled < 4) std::this_thread::yield();
    EXPECT_EQ(expired + cancelled, 4);
    EXPECT_EQ(pool_.clockwork().pending(), 0);
  }
}

TEST_F(TimerThread, StopLeavesWhatIsNotDueToBeCancelled) {
  calling one([] { ADD_FAILURE(); });
  calling other([] { ADD_FAILURE(); });
  timers().start_timer(one, monotonic_now() + 1h);
  timers().start_timer(other, monotonic_now() + 1h);
  EXPECT_EQ(pool_.clockwork().stop(), 2);
  EXPECT_TRUE(pool_.clockwork().cancel_timer(one));
  EXPECT_EQ(pool_.clockwork().stop(), 1);
  EXPECT_TRUE(pool_.clockwork().cancel_timer(other));
}

TEST_F(TimerThread, StopsOnAThreadOfTheExecutor) {
  std::latch stopped(1);
  calling timer([&] {
    EXPECT_EQ(pool_.clockwork().stop(), 0);
    stopped.count_down();
  });
  timers().start_timer(timer, monotonic_now());
  stopped.wait();
}

TEST(TimerThreadEnds, WhileTimersExpire) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> expired = 0;
    auto count = [&] { ++expired; };
    std::vector<std::unique_ptr<calling<decltype(count)>>> some;
    {
      two_threads pool;
      for (int i = 0; i < 10; ++i) {
        some.push_back(std::make_unique<calling<decltype(count)>>(count));
        pool.timers()->start_timer(*some.back(),
                                   monotonic_now() + std::chrono::microseconds(10 * i));
      }
      while (expired < round % 4) std::this_thread::yield();
    }
    EXPECT_LE(expired, 10);
  }
}

// ---- waits

TEST_F(TimerThread, SleepersWakeAndNotBefore) {
  run_many(300, [this](int i) -> task<> {
    const nanoseconds delay = std::chrono::microseconds(i * 37 % 3000);
    const steady_time begin = timers().now();
    co_await gyre::sleep_for(delay);
    EXPECT_GE(timers().now() - begin, delay);
    EXPECT_TRUE(pool_.running_here());
  });
  EXPECT_EQ(pool_.clockwork().pending(), 0);
}

TEST_F(TimerThread, SleepsRaceWithStops) {
  for (int round = 0; round < 300; ++round) {
    gyre::inplace_stop_source source;
    std::latch ended(2);
    const auto sleeper = [](nanoseconds delay, std::latch& done) -> task<> {
      try {
        co_await gyre::sleep_for(delay);
      } catch (const gyre::operation_cancelled&) {  // the stop was first
      }
      done.count_down();
    };
    gyre::spawn(pool_, sleeper(std::chrono::microseconds(round % 100), ended),
                {.stop = source.get_token()});
    gyre::spawn(pool_, sleeper(1h, ended), {.stop = source.get_token()});
    const steady_time begin = monotonic_now();
    while (monotonic_now() < begin + std::chrono::microseconds(round % 100)) {
    }
    source.request_stop();
    ended.wait();
  }
  EXPECT_EQ(pool_.clockwork().pending(), 0);
}

TEST_F(TimerThread, TimeoutsMeetTheEndOfWhatTheyLimit) {
  run_many(300, [](int i) -> task<> {
    const nanoseconds limit = std::chrono::microseconds(i * 7 % 400);
    auto limited = gyre::with_timeout(gyre::sleep_for(std::chrono::microseconds(200)), limit);
    const auto ended = co_await gyre::as_expected(std::move(limited));
    EXPECT_TRUE(ended || ended.error() == std::errc::timed_out);
  });
  EXPECT_EQ(pool_.clockwork().pending(), 0);
}

TEST_F(TimerThread, TimeoutEndsWhatWouldTakeForEver) {
  run_many(50, [](int) -> task<> {
    auto limited = gyre::with_timeout(gyre::sleep_for(nanoseconds::max()), 1ms);
    const auto ended = co_await gyre::as_expected(std::move(limited));
    EXPECT_EQ(ended.error(), std::errc::timed_out);
  });
}

TEST_F(TimerThread, TheFirstOfSeveralSleepsStopsTheOthers) {
  run_many(200, [](int i) -> task<> {
    const auto after = [](nanoseconds delay, int number) -> task<int> {
      co_await gyre::sleep_for(delay);
      co_return number;
    };
    const nanoseconds short_one = std::chrono::microseconds(i % 100);
    auto either = gyre::when_any(after(short_one, 1), after(short_one, 2), after(1h, 3));
    const auto first = co_await std::move(either);
    EXPECT_LT(first.index, 2);
  });
  EXPECT_EQ(pool_.clockwork().pending(), 0);
}

TEST_F(TimerThread, SelectTakesAValueOrTimesOutWhicheverIsFirst) {
  std::atomic<int> received = 0;
  std::atomic<int> sent = 0;
  run_many(400, [&](int i) -> task<> {
    auto channel = std::make_shared<gyre::channel<int>>(0);
    auto sender = [](std::shared_ptr<gyre::channel<int>> to, nanoseconds delay,
                     std::atomic<int>& count) -> task<> {
      co_await gyre::sleep_for(delay);
      const bool done = to->try_send(1) == gyre::channel_status::ok;
      count += done ? 1 : 0;
    };
    auto receiver = [](std::shared_ptr<gyre::channel<int>> from, nanoseconds delay,
                       std::atomic<int>& count) -> task<> {
      auto first = co_await gyre::select(gyre::on_receive(*from), gyre::on_timeout(delay),
                                         gyre::on_timeout(delay));
      count += first.index() == 0 ? 1 : 0;
    };
    const nanoseconds delay = std::chrono::microseconds(i % 50 * 10);
    auto both = gyre::when_all(sender(channel, delay, sent), receiver(channel, delay, received));
    co_await std::move(both);
  });
  EXPECT_EQ(sent, received);
  EXPECT_EQ(pool_.clockwork().pending(), 0);
}

TEST_F(TimerThread, SelectThatIsStoppedLeavesNoTimer) {
  for (int round = 0; round < 200; ++round) {
    gyre::inplace_stop_source source;
    std::latch ended(1);
    gyre::spawn(pool_,
                [](nanoseconds delay, std::latch& done) -> task<> {
                  try {
                    auto first =
                        co_await gyre::select(gyre::on_timeout(delay), gyre::on_timeout(1h));
                    EXPECT_EQ(first.index(), 0U);
                  } catch (const gyre::operation_cancelled&) {  // the stop was first
                  }
                  done.count_down();
                }(std::chrono::microseconds(round), ended),
                {.stop = source.get_token()});
    source.request_stop();
    ended.wait();
  }
  EXPECT_EQ(pool_.clockwork().pending(), 0);
}

}  // namespace
}  // namespace timer_thread_test
