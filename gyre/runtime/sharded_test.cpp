// SPDX-License-Identifier: Apache-2.0
// Tests of sharded: where instances live, where calls run and come back to, and an orderly end.
#include <gyre/runtime/sharded.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sharded_test {
namespace {

using gyre::sharded;
using gyre::sync_wait;
using gyre::task;

// Checks that its loop alone touches it.
class counter {
 public:
  explicit counter(int begin = 0) : value_(begin), home_(gyre::event_loop::current()) {
    EXPECT_NE(home_, nullptr);
    ++alive;
  }
  counter(const counter&) = delete;
  counter& operator=(const counter&) = delete;
  ~counter() {
    EXPECT_TRUE(is_home());
    --alive;
  }
  int add(int by) {
    EXPECT_TRUE(is_home());
    return value_ += by;
  }
  int value() const {
    EXPECT_TRUE(is_home());
    return value_;
  }
  bool is_home() const { return home_->in_loop_thread(); }
  gyre::event_loop* home() const { return home_; }

  static inline std::atomic<int> alive{0};

 private:
  int value_;
  gyre::event_loop* home_;
};

class Sharded : public testing::Test {
 protected:
  ~Sharded() override { EXPECT_EQ(counter::alive, 0); }
  gyre::loop_pool loops_{3};
};

TEST_F(Sharded, MakesAnInstanceOnEachLoopAndDestroysItThere) {
  sharded<counter> counters(loops_);
  EXPECT_FALSE(counters.is_started());
  sync_wait(counters.start(5));
  EXPECT_TRUE(counters.is_started());
  EXPECT_EQ(counter::alive, 3);
  EXPECT_EQ(sync_wait(counters.map_reduce(&counter::value, 0)), 15);
  sync_wait(counters.stop());
  EXPECT_EQ(counter::alive, 0);
  EXPECT_FALSE(counters.is_started());
}

TEST_F(Sharded, CallsTheInstanceOfAKeyOnItsLoop) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  for (int key = 0; key < 50; ++key) {
    gyre::event_loop* const expected = &loops_.for_hash(std::hash<int>()(key));
    EXPECT_EQ(sync_wait(counters.call(key, &counter::home)), expected);
    sync_wait(counters.call(key, [](counter& of) { of.add(1); }));
  }
  EXPECT_EQ(sync_wait(counters.map_reduce(&counter::value, 0)), 50);
}

TEST_F(Sharded, EqualStringsOfAnyTypeAreOneKey) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  for (const char* const name : {"alice", "bob", "carol", "dave"}) {
    const std::string key = name;
    const auto* const home = sync_wait(counters.call(key, &counter::home));
    EXPECT_EQ(sync_wait(counters.call(std::string_view(key), &counter::home)), home);
    EXPECT_EQ(sync_wait(counters.call(name, &counter::home)), home);
  }
}

task<bool> call_from(gyre::executor& home, sharded<counter>& counters) {
  co_await gyre::resume_on(home);
  const int value = co_await counters.call_on(1, [](counter& of) { return of.add(2); });
  co_return value == 2 && home.running_here();
}

TEST_F(Sharded, GivesTheResultOnTheExecutorOfTheCaller) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  gyre::thread_pool pool({.workers = 2});
  EXPECT_TRUE(sync_wait(call_from(pool, counters)));
}

task<bool> fails_from(gyre::executor& home, sharded<counter>& counters) {
  co_await gyre::resume_on(home);
  bool failed = false;
  try {
    co_await counters.call_on(1, [](counter&) -> int { throw std::runtime_error("call"); });
  } catch (const std::runtime_error&) {
    failed = true;
  }
  co_return failed&& home.running_here();
}

TEST_F(Sharded, GivesTheExceptionOnTheExecutorOfTheCaller) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  gyre::thread_pool pool({.workers = 2});
  EXPECT_TRUE(sync_wait(fails_from(pool, counters)));
}

task<int> add_later(counter& to, gyre::executor* by_way_of) {
  co_await gyre::yield();
  const int value = to.add(3);
  if (by_way_of != nullptr) co_await gyre::resume_on(*by_way_of);
  co_return value;
}

TEST_F(Sharded, AwaitsAnAwaitableResultOnTheLoop) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  EXPECT_EQ(sync_wait(counters.call("key", [](counter& of) { return add_later(of, nullptr); })), 3);
  gyre::thread_pool pool({.workers = 1});
  EXPECT_EQ(sync_wait(counters.call("key", [&](counter& of) { return add_later(of, &pool); })), 6);
}

TEST_F(Sharded, AwaitableThatFailsGivesItsException) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  const auto fails = [](counter&) -> task<> {
    co_await gyre::yield();
    throw std::runtime_error("later");
  };
  EXPECT_THROW(sync_wait(counters.call(1, fails)), std::runtime_error);
}

TEST_F(Sharded, CallsEachInstance) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  sync_wait(counters.on_each([](counter& of) { of.add(1); }));
  sync_wait(counters.on_each([](counter& of) -> task<> { co_await add_later(of, nullptr); }));
  EXPECT_EQ(sync_wait(counters.map_reduce(&counter::value, 0)), 12);
}

TEST_F(Sharded, ReducesInTheOrderOfTheLoops) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  for (std::size_t i = 0; i < counters.size(); ++i) {
    sync_wait(counters.call_on(i, [i](counter& of) { of.add(static_cast<int>(i)); }));
  }
  const auto digit = [](counter& of) { return std::to_string(of.value()); };
  EXPECT_EQ(sync_wait(counters.map_reduce(digit, std::string("> "))), "> 012");
  const auto least = [](int one, int other) { return std::min(one, other); };
  EXPECT_EQ(sync_wait(counters.map_reduce(&counter::value, 9, least)), 0);
}

TEST_F(Sharded, LocalIsTheInstanceOfTheRunningLoop) {
  sharded<counter> counters(loops_);
  EXPECT_THROW(counters.local(), std::logic_error);
  sync_wait(counters.start());
  EXPECT_THROW(counters.local(), std::logic_error) << "not on a loop";
  const auto visits = [](sharded<counter>& of, gyre::loop_pool& on) -> task<int> {
    int right = 0;
    for (std::size_t i = 0; i < on.size(); ++i) {
      co_await gyre::resume_on(on[i]);
      if (of.local().home() == &on[i]) ++right;
    }
    co_return right;
  };
  EXPECT_EQ(sync_wait(visits(counters, loops_)), 3);
}

struct with_loop {
  with_loop(gyre::event_loop& home, std::string text) : loop(home), name(std::move(text)) {}
  gyre::event_loop& loop;
  std::string name;
};

TEST_F(Sharded, PassesTheLoopToAConstructorThatTakesIt) {
  sharded<with_loop> all(loops_);
  sync_wait(all.start(std::string("name")));
  sync_wait(all.on_each([](with_loop& each) {
    EXPECT_TRUE(each.loop.in_loop_thread());
    EXPECT_EQ(each.name, "name");
  }));
}

TEST_F(Sharded, StartsAndStopsFromACoroutineOfTheLoops) {
  sharded<counter> counters(loops_);
  const auto uses = [](sharded<counter>& all, gyre::loop_pool& on) -> task<int> {
    co_await gyre::resume_on(on[0]);
    co_await all.start(1);
    const int sum = co_await all.map_reduce(&counter::value, 0);
    co_await all.stop();
    co_return on[0].running_here() ? sum : -1;
  };
  EXPECT_EQ(sync_wait(uses(counters, loops_)), 3);
}

struct fails_on_the_second : counter {
  explicit fails_on_the_second(std::atomic<int>* made) {
    if (++*made == 2) throw std::runtime_error("constructor");
  }
};

TEST_F(Sharded, DestroysInstancesAgainWhenAConstructorThrows) {
  sharded<fails_on_the_second> all(loops_);
  std::atomic<int> made{0};
  EXPECT_THROW(sync_wait(all.start(&made)), std::runtime_error);
  EXPECT_EQ(counter::alive, 0);
  EXPECT_FALSE(all.is_started());
  sync_wait(all.start(&made));  // a second attempt
  EXPECT_EQ(counter::alive, 3);
}

TEST_F(Sharded, RefusesASecondStartAndCallsOutsideOfItsLife) {
  sharded<counter> counters(loops_);
  const auto adds = [](counter& to) { return to.add(1); };
  EXPECT_THROW(sync_wait(counters.call(1, adds)), std::logic_error);
  EXPECT_THROW(sync_wait(counters.on_each(adds)), std::logic_error);
  sync_wait(counters.stop());
  sync_wait(counters.start());
  EXPECT_THROW(sync_wait(counters.start()), std::logic_error);
  EXPECT_THROW(sync_wait(counters.call_on(3, adds)), std::out_of_range);
  sync_wait(counters.stop());
  EXPECT_THROW(sync_wait(counters.call(1, adds)), std::logic_error);
}

TEST_F(Sharded, StopLetsRunningCallsEnd) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  gyre::manual_reset_event go_on;
  std::promise<void> began;
  const auto waits = [](counter& of, gyre::manual_reset_event& event,
                        std::promise<void>& begun) -> task<int> {
    begun.set_value();
    co_await event.wait();
    co_return of.add(7);
  };
  gyre::thread_pool pool({.workers = 2});
  auto call = gyre::spawn_future(
      pool, counters.call_on(0, [&](counter& of) { return waits(of, go_on, began); }));
  began.get_future().get();
  auto stop = gyre::spawn_future(pool, counters.stop());
  const auto alive = [] { return counter::alive.load(); };
  while (alive() != 1) std::this_thread::yield();  // the other two have gone
  EXPECT_THROW(sync_wait(counters.call_on(0, &counter::value)), std::logic_error);
  EXPECT_NE(stop.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  go_on.set();
  EXPECT_EQ(call.get(), 7);
  stop.get();
  EXPECT_EQ(alive(), 0);
}

TEST_F(Sharded, StopIsNotPreventedByAStopRequest) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  gyre::inplace_stop_source source;
  source.request_stop();
  sync_wait(counters.stop(), source.get_token());
  EXPECT_EQ(counter::alive, 0);
}

struct service : counter {
  service(std::atomic<int>* counts_stops, std::atomic<int>* counts_calls)
      : stops(counts_stops), serving(counts_calls) {}
  task<> stop() {
    co_await gyre::yield();
    if (++*stops == 2) throw std::runtime_error("stop");
    open.set();
  }
  task<> serve() {
    ++*serving;
    co_await open.wait();
  }
  gyre::manual_reset_event open;
  std::atomic<int>* stops;
  std::atomic<int>* serving;
};

TEST_F(Sharded, StopAwaitsTheStopOfEachInstanceWhichMayEndItsCalls) {
  sharded<service> services(loops_);
  std::atomic<int> stops{2};  // none fails
  std::atomic<int> serving{0};
  sync_wait(services.start(&stops, &serving));
  gyre::thread_pool pool({.workers = 2});
  auto calls = gyre::spawn_future(pool, services.on_each(&service::serve));
  while (serving != 3) std::this_thread::yield();
  sync_wait(services.stop());
  calls.get();
  EXPECT_EQ(stops, 5);
  EXPECT_EQ(counter::alive, 0);
}

TEST_F(Sharded, StopGivesAnExceptionOnceAllAreDestroyed) {
  sharded<service> services(loops_);
  std::atomic<int> stops{0};
  std::atomic<int> serving{0};
  sync_wait(services.start(&stops, &serving));
  EXPECT_THROW(sync_wait(services.stop()), std::runtime_error);
  EXPECT_EQ(stops, 3);
  EXPECT_EQ(counter::alive, 0);
}

struct fails_to_stop : fails_on_the_second {
  using fails_on_the_second::fails_on_the_second;
  gyre::task<> stop() {
    throw std::logic_error("stop");
    co_return;
  }
};

TEST_F(Sharded, StartThrowsTheErrorOfTheConstructorAlsoIfAStopFails) {
  sharded<fails_to_stop> all(loops_);
  std::atomic<int> made{0};
  EXPECT_THROW(sync_wait(all.start(&made)), std::runtime_error);
  EXPECT_EQ(counter::alive, 0);
}

TEST_F(Sharded, DestructorStops) {
  {
    sharded<counter> counters(loops_);
    sync_wait(counters.start());
    EXPECT_EQ(counter::alive, 3);
  }
  EXPECT_EQ(counter::alive, 0);
}

#if defined(GTEST_HAS_DEATH_TEST)
TEST(ShardedDeathTest, DestroyedAfterItsLoopsWereStoppedSaysSo) {
  auto forgets = [] {
    gyre::loop_pool loops(1);
    sharded<int> numbers(loops);
    sync_wait(numbers.start());
    loops.stop();
    loops.join();
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(forgets(), "await stop\\(\\) before");
}
#endif

TEST_F(Sharded, TakesCallsFromManyThreadsAtOnce) {
  sharded<counter> counters(loops_);
  sync_wait(counters.start());
  gyre::thread_pool pool({.workers = 3});
  const auto adds = [](sharded<counter>& to, int first) -> task<> {
    for (int key = first; key < first + 300; ++key) {
      co_await to.call(key, [](counter& of) { of.add(1); });
    }
  };
  std::vector<std::future<void>> callers;
  for (int i = 0; i < 6; ++i) callers.push_back(gyre::spawn_future(pool, adds(counters, i)));
  for (int i = 0; i < 2; ++i) {
    callers.push_back(gyre::spawn_future(loops_[static_cast<std::size_t>(i)], adds(counters, i)));
  }
  for (auto& each : callers) each.get();
  EXPECT_EQ(sync_wait(counters.map_reduce(&counter::value, 0)), 8 * 300);
}

TEST_F(Sharded, StoppedWhileManyCall) {
  for (int round = 0; round < 20; ++round) {
    sharded<counter> counters(loops_);
    sync_wait(counters.start());
    gyre::thread_pool pool({.workers = 3});
    const auto adds = [](sharded<counter>& to) -> task<int> {
      for (int key = 0;; ++key) {
        try {
          co_await to.call(key, [](counter& of) { return add_later(of, nullptr); });
        } catch (const std::logic_error&) {
          co_return key;
        }
      }
    };
    std::vector<std::future<int>> callers;
    for (int i = 0; i < 4; ++i) callers.push_back(gyre::spawn_future(pool, adds(counters)));
    sync_wait(counters.call_on(0, [](counter& of) { return add_later(of, nullptr); }));
    sync_wait(counters.stop());
    for (auto& each : callers) EXPECT_GE(each.get(), 0);
  }
}

}  // namespace
}  // namespace sharded_test
