// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/async_cache.hpp>

#include <gyre/sync/sync_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>
#include <tests/support/thread_executor.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace async_cache_test {
namespace {

using namespace std::chrono_literals;

using gyre::async_cache;
using gyre::sync_wait;
using gyre::task;
using gyre::test::started;
using gyre::test::thread_executor;
using gyre::testing::manual_executor;

using text_cache = async_cache<std::string, std::string>;

// The outcome of a get().
struct outcome {
  std::shared_ptr<const std::string> value;
  std::string error;
  bool cancelled = false;
};

class AsyncCache : public testing::Test {
 protected:
  // Loads a text that tells the number of the load, in a second.
  auto loader() {
    return [this](const std::string& key) { return load(key); };
  }
  task<std::string> load(std::string key) {
    const int number = ++loads;
    co_await gyre::sleep_for(1s);
    if (failure) throw std::runtime_error(*failure);
    co_return key + std::to_string(number);
  }

  task<> get_into(text_cache& cache, std::string key, outcome& to) {
    try {
      to.value = co_await cache.get(std::move(key), loader());
    } catch (const gyre::operation_cancelled&) {
      to.cancelled = true;
    } catch (const std::exception& error) {
      to.error = error.what();
    }
  }
  outcome& start(text_cache& cache, std::string key, gyre::inplace_stop_token stop = {}) {
    outcome& to = outcomes.emplace_back();
    gyre::spawn(executor, get_into(cache, std::move(key), to), {.stop = stop});
    executor.run_all();
    return to;
  }
  // Waits for the value, in virtual time.
  std::string get(text_cache& cache, std::string key) {
    return *run_in_virtual_time(executor, cache.get(std::move(key), loader()));
  }

  manual_executor executor;
  int loads = 0;
  std::optional<std::string> failure;
  std::deque<outcome> outcomes;
};

TEST_F(AsyncCache, LoadsAValueOnceAndKeepsIt) {
  text_cache cache({.capacity = 10});
  EXPECT_EQ(cache.try_get("a"), nullptr);
  EXPECT_EQ(get(cache, "a"), "a1");
  EXPECT_EQ(get(cache, "a"), "a1");
  EXPECT_EQ(*cache.try_get("a"), "a1");
  EXPECT_EQ(cache.size(), 1U);
  const gyre::async_cache_statistics seen = cache.statistics();
  EXPECT_EQ(seen.hits, 2U);
  EXPECT_EQ(seen.misses, 2U);
  EXPECT_EQ(seen.loads, 1U);
  EXPECT_EQ(seen.failures, 0U);
  EXPECT_EQ(seen.evictions, 0U);
}

TEST_F(AsyncCache, FiftyGetsAtTheSameTimeLoadOnce) {
  text_cache cache({.capacity = 10});
  for (int i = 0; i < 50; ++i) start(cache, "a");
  executor.advance(1s);
  EXPECT_EQ(loads, 1);
  for (const outcome& each : outcomes) {
    ASSERT_NE(each.value, nullptr);
    EXPECT_EQ(each.value, outcomes.front().value) << "shared, not copied";
  }
}

TEST_F(AsyncCache, DropsTheEntryThatWasNotUsedForLongest) {
  text_cache cache({.capacity = 2});
  cache.put("a", "1");
  cache.put("b", "2");
  EXPECT_NE(cache.try_get("a"), nullptr);
  const auto held = cache.try_get("b");
  EXPECT_NE(cache.try_get("a"), nullptr);
  cache.put("c", "3");
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_EQ(cache.try_get("b"), nullptr);
  EXPECT_NE(cache.try_get("a"), nullptr);
  EXPECT_NE(cache.try_get("c"), nullptr);
  EXPECT_EQ(cache.statistics().evictions, 1U);
  EXPECT_EQ(*held, "2") << "a value that was dropped stays valid for its users";
}

TEST_F(AsyncCache, PutReplacesAValue) {
  text_cache cache({.capacity = 1});
  cache.put("a", "1");
  cache.put("a", "2");
  EXPECT_EQ(*cache.try_get("a"), "2");
  EXPECT_EQ(cache.statistics().evictions, 0U);
  EXPECT_EQ(get(cache, "a"), "2");
}

TEST_F(AsyncCache, ReplacedValueIsNotEvictedToMakeRoomForItself) {
  const auto length = [](const std::string&, const std::string& value) { return value.size(); };
  text_cache cache({.capacity = 10, .weight_limit = 4, .weigher = length});
  cache.put("a", "1");
  cache.put("b", "22");
  cache.put("a", "333");
  EXPECT_EQ(cache.statistics().evictions, 1U);
  EXPECT_EQ(cache.try_get("b"), nullptr);
  EXPECT_EQ(*cache.try_get("a"), "333");
}

TEST_F(AsyncCache, InvalidatedValueIsLoadedAnew) {
  text_cache cache({.capacity = 10});
  EXPECT_FALSE(cache.invalidate("a"));
  EXPECT_EQ(get(cache, "a"), "a1");
  EXPECT_TRUE(cache.invalidate("a"));
  EXPECT_EQ(get(cache, "a"), "a2");
}

TEST_F(AsyncCache, LoadThatIsInvalidatedServesItsCallersButIsNotStored) {
  text_cache cache({.capacity = 10});
  outcome& before = start(cache, "a");
  EXPECT_FALSE(cache.invalidate("a"));
  outcome& after = start(cache, "a");
  executor.advance(1s);
  EXPECT_EQ(*before.value, "a1");
  EXPECT_EQ(*after.value, "a2");
  EXPECT_EQ(*cache.try_get("a"), "a2");
  outcome& cleared = start(cache, "b");
  cache.clear();
  executor.advance(1s);
  EXPECT_EQ(*cleared.value, "b3");
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.weight(), 0U);
}

TEST_F(AsyncCache, PutDuringALoadIsNewerThanTheLoad) {
  text_cache cache({.capacity = 10});
  outcome& loading = start(cache, "a");
  cache.put("a", "newer");
  executor.advance(1s);
  EXPECT_EQ(*loading.value, "a1");
  EXPECT_EQ(*cache.try_get("a"), "newer");
}

TEST_F(AsyncCache, ErrorReachesAllCallersAndIsNotKept) {
  text_cache cache({.capacity = 10});
  failure = "no such page";
  start(cache, "a");
  start(cache, "a");
  executor.advance(1s);
  for (const outcome& each : outcomes) EXPECT_EQ(each.error, "no such page");
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.statistics().failures, 1U);
  failure.reset();
  EXPECT_EQ(get(cache, "a"), "a2");
}

TEST_F(AsyncCache, ValueExpiresAfterItsTimeToLive) {
  text_cache cache({.capacity = 10, .time_to_live = 5min, .clock = &executor});
  EXPECT_EQ(get(cache, "a"), "a1");
  cache.put("b", "2");
  executor.advance(4min);
  EXPECT_EQ(get(cache, "a"), "a1") << "to be used does not prolong it";
  executor.advance(1min);
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_EQ(cache.try_get("b"), nullptr);
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(get(cache, "a"), "a2");
}

TEST_F(AsyncCache, WeightsAreLimited) {
  text_cache cache({.capacity = 10,
                    .weight_limit = 10,
                    .weigher = [](const auto&, const auto& value) { return value.size(); }});
  cache.put("a", "1234");
  cache.put("b", "12345");
  EXPECT_EQ(cache.weight(), 9U);
  cache.put("c", "123456");
  EXPECT_EQ(cache.weight(), 6U) << "two made room for one";
  EXPECT_EQ(cache.statistics().evictions, 2U);
  cache.put("d", "1");
  cache.put("d", "12345");
  EXPECT_EQ(cache.weight(), 5U) << "a value that has grown makes others leave";
  EXPECT_EQ(cache.try_get("c"), nullptr);
  cache.put("d", "too heavy to be stored");
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.weight(), 0U);
}

TEST_F(AsyncCache, StopOfOneCallerLeavesTheLoadToTheOthers) {
  text_cache cache({.capacity = 10});
  std::array<gyre::inplace_stop_source, 2> stops;
  outcome& first = start(cache, "a", stops[0].get_token());
  outcome& second = start(cache, "a");
  stops[0].request_stop();
  executor.advance(1s);
  EXPECT_TRUE(first.cancelled);
  EXPECT_EQ(*second.value, "a1");
  outcome& alone = start(cache, "b", stops[1].get_token());
  stops[1].request_stop();
  executor.run_all();
  EXPECT_TRUE(alone.cancelled);
  EXPECT_EQ(executor.timers_pending(), 0U) << "the load was stopped as well";
  EXPECT_EQ(cache.statistics().failures, 1U);
}

TEST_F(AsyncCache, LoadMayOutliveTheCacheAndItsCallers) {
  auto cache = std::make_unique<text_cache>(text_cache::options{.capacity = 10});
  bool ended = false;
  const auto stubborn = [&](const std::string& key) -> task<std::string> {
    co_await gyre::schedule(executor);  // ignores a stop
    ended = true;
    co_return key;
  };
  const auto wait = [&]() -> task<> { co_await cache->get("a", stubborn); };
  {
    started caller(executor, wait());
    caller.drop();
  }
  cache.reset();
  executor.run_all();
  EXPECT_TRUE(ended);
}

TEST_F(AsyncCache, RefusesSettingsThatCannotWork) {
  EXPECT_THROW(text_cache({.capacity = 0}), std::invalid_argument);
  EXPECT_THROW(text_cache({.capacity = 1, .time_to_live = 0s, .clock = &executor}),
               std::invalid_argument);
  EXPECT_THROW(text_cache({.capacity = 1, .time_to_live = 1s}), std::invalid_argument);
}

TEST_F(AsyncCache, LoadsOnTheNamedExecutor) {
  thread_executor named;
  async_cache<int, std::thread::id> cache({.capacity = 1, .where = &named});
  const auto where = [](int) { return gyre::test::this_thread_id(); };
  EXPECT_EQ(*sync_wait(cache.get(1, where)), named.id());
}

// A value that looks into its cache when it is destroyed.
struct curious {
  explicit curious(async_cache<int, curious>& in) : cache(&in) {}
  curious(curious&& other) noexcept : cache(std::exchange(other.cache, nullptr)) {}
  curious& operator=(curious&&) = delete;
  ~curious() {
    if (cache != nullptr) static_cast<void>(cache->size());
  }
  async_cache<int, curious>* cache;
};

TEST(AsyncCacheOf, ValuesAreDestroyedWithoutTheLock) {
  manual_executor executor;
  async_cache<int, curious> cache({.capacity = 2, .time_to_live = 1min, .clock = &executor});
  for (int i = 0; i < 4; ++i) cache.put(i, curious(cache));
  cache.put(3, curious(cache));
  cache.invalidate(3);
  executor.advance(1min);
  EXPECT_EQ(cache.try_get(2), nullptr);
  cache.put(1, curious(cache));
  cache.clear();
  EXPECT_EQ(cache.size(), 0U);
}

struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

TEST(AsyncCacheOf, FindsKeysOfAnotherTypeByTransparentHash) {
  async_cache<std::string, int, text_hash, std::equal_to<>> cache({.capacity = 2});
  cache.put("a", 1);
  EXPECT_EQ(*cache.try_get(std::string_view("a")), 1);
  EXPECT_TRUE(cache.invalidate(std::string_view("a")));
  EXPECT_EQ(cache.size(), 0U);
}

// A value that is read after its invalidation is not older than the change before it.
TEST(AsyncCacheOf, NothingStaleIsReadAfterAnInvalidation) {
  constexpr int enough = 4000;  // values read
  constexpr int keys = 3;
  std::array<std::atomic<int>, keys> source{};
  async_cache<int, int> cache({.capacity = 2});
  std::atomic<bool> over{false};
  std::atomic<int> reads{0};
  std::atomic<int> stale{0};
  {
    std::array<thread_executor, 2> readers;
    const auto load = [&](int key) -> task<int> {
      const int value = source.at(static_cast<std::size_t>(key));
      co_await gyre::yield();
      co_return value;
    };
    std::array<std::atomic<int>, keys> announced{};
    const auto read = [&]() -> task<> {
      for (int i = 0; !over; ++i) {
        const int key = i % keys;
        const int newest = announced.at(static_cast<std::size_t>(key));
        const std::shared_ptr<const int> seen = co_await cache.get(key, load);
        if (*seen < newest) ++stale;
        ++reads;
        co_await gyre::yield();
      }
    };
    std::vector<task<>> reading;
    for (auto& each : readers) {
      reading.push_back(gyre::on(each, read()));
      reading.push_back(gyre::on(each, read()));
    }
    const std::jthread writer([&] {
      for (int i = 1; reads < enough; ++i) {
        const auto key = static_cast<std::size_t>(i % keys);
        source.at(key) = i;
        if (i % 7 == 0) {
          cache.put(i % keys, i);
        } else if (i % 11 == 0) {
          cache.clear();
        } else {
          cache.invalidate(i % keys);
        }
        announced.at(key) = i;
        std::this_thread::yield();
      }
      over = true;
    });
    sync_wait(gyre::when_all(std::move(reading)));
  }
  EXPECT_EQ(stale, 0);
}

TEST(AsyncCacheOf, KeepsItsLimitsOnSeveralThreads) {
  constexpr int rounds = 1500;
  constexpr std::size_t limit = 20;
  async_cache<int, std::vector<int>> cache(
      {.capacity = 8, .weight_limit = limit, .weigher = [](int, const std::vector<int>& value) {
         return value.size();
       }});
  std::atomic<int> values{0};
  std::atomic<int> stopped{0};
  std::atomic<int> too_much{0};
  std::deque<gyre::inplace_stop_source> stops(rounds);
  {
    std::array<thread_executor, 2> threads;
    const auto load = [](int key) -> task<std::vector<int>> {
      co_await gyre::yield();
      co_return std::vector<int>(static_cast<std::size_t>(key), key);
    };
    const auto get = [&](int key) -> task<> {
      try {
        const auto value = co_await cache.get(key, load);
        EXPECT_EQ(value->size(), static_cast<std::size_t>(key));
        ++values;
      } catch (const gyre::operation_cancelled&) {
        ++stopped;
      }
      if (cache.weight() > limit || cache.size() > 8) ++too_much;
    };
    const auto change = [&](int key, gyre::inplace_stop_source& stop) -> task<> {
      stop.request_stop();
      if (key % 3 == 0) cache.invalidate(key);
      if (key % 5 == 0) cache.put(key, std::vector<int>(static_cast<std::size_t>(key), key));
      co_return;
    };
    for (int round = 0; round < rounds; ++round) {
      auto& stop = stops.at(static_cast<std::size_t>(round));
      const int key = round % 13;
      auto& here = threads.at(static_cast<std::size_t>(round) % 2);
      auto& there = threads.at(static_cast<std::size_t>(round + 1) % 2);
      gyre::spawn(here, get(key), {.stop = stop.get_token()});
      gyre::spawn(there, get(key));
      gyre::spawn(there, change(key, stop));
    }
    while (values + stopped < 2 * rounds) std::this_thread::yield();
  }
  EXPECT_EQ(too_much, 0);
  EXPECT_GE(values, rounds);
  const gyre::async_cache_statistics seen = cache.statistics();
  EXPECT_GT(seen.evictions, 0U);
  EXPECT_GE(seen.hits + seen.misses, seen.loads);
}

}  // namespace
}  // namespace async_cache_test
