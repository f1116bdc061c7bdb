// SPDX-License-Identifier: Apache-2.0
// The programs of docs/guide/redis.md.
#include <gyre/engines/redis/cached_client.hpp>
#include <gyre/engines/redis/client.hpp>
#include <gyre/engines/redis/stream_entry.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/redis_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace redis_guide_test {
namespace {

using namespace std::chrono_literals;

// clang-format off
gyre::task<> count_visits(gyre::redis::client& cache) {
  co_await cache.call<void>("SET", "visits", 41);
  int visits = co_await cache.call<int>("INCR", "visits");
  auto name = co_await cache.call<std::optional<std::string>>("GET", "name");
  std::cout << visits << ' ' << name.value_or("nobody") << '\n';
}
// clang-format on

// clang-format off
gyre::task<> shapes(gyre::redis::client& cache) {
  std::map<std::string, int> stock = {{"apples", 3}, {"pears", 5}};
  co_await cache.call<void>("HSET", "stock", stock);  // HSET stock apples 3 pears 5
  stock = co_await cache.call<std::map<std::string, int>>("HGETALL", "stock");
  auto keys = co_await cache.call<std::vector<std::string>>("KEYS", "st*");
  bool is_first = co_await cache.call<bool>("SET", "lock", "me", "NX", "PX", 1000);
  std::cout << stock["pears"] << ' ' << keys.size() << ' ' << is_first << '\n';
}
// clang-format on

// clang-format off
gyre::task<std::string> page_or_nothing(gyre::redis::client& cache) {
  try {
    auto page = co_await gyre::with_timeout(cache.call<std::string>("GET", "page"), 100ms);
    co_return page;
  } catch (const gyre::redis::server_error& error) {
    std::cout << "refused: " << error.text() << '\n';  // such as WRONGTYPE
  } catch (const std::system_error& error) {
    std::cout << "failed: " << error.what() << '\n';  // no value, no connection, no time
  }
  co_return "";
}
// clang-format on

// clang-format off
gyre::task<> move_money(gyre::redis::client& cache) {
  auto [from, to] = co_await cache.transaction(gyre::redis::command<int>("DECRBY", "ann", 10),
                                               gyre::redis::command<int>("INCRBY", "bob", 10));
  std::cout << from << ' ' << to << '\n';
}
// clang-format on

// clang-format off
gyre::task<> double_it(gyre::redis::session& session) {
  for (;;) {
    co_await session.call<void>("WATCH", "number");
    int number = co_await session.call<int>("GET", "number");
    try {
      co_await session.transaction(gyre::redis::command<void>("SET", "number", 2 * number));
      co_return;
    } catch (const std::system_error& error) {
      if (error.code() != gyre::redis::errc::transaction_aborted) throw;
    }
  }
}
// clang-format on

// clang-format off
gyre::task<> work(gyre::redis::client& cache) {
  gyre::redis::session session = co_await cache.open_session();
  for (;;) {
    auto job = co_await session.call<std::optional<std::pair<std::string, std::string>>>(
        "BLPOP", "jobs", 30);
    if (job && job->second == "stop") co_return;
    if (job) std::cout << "job " << job->second << '\n';
  }
}
// clang-format on

// clang-format off
gyre::task<> follow(gyre::redis::subscription& news) {
  while (auto message = co_await news.next()) {
    if (message->follows_gap) std::cout << "some may be missing\n";
    if (message->text == "bye") co_return;
    std::cout << message->channel << ": " << message->text << '\n';
  }
}
// clang-format on

// clang-format off
const gyre::redis::script take_token(
    "local left = tonumber(redis.call('GET', KEYS[1]) or ARGV[1]) "
    "if left == 0 then return false end "
    "redis.call('SET', KEYS[1], left - 1) return left - 1");

gyre::task<bool> is_allowed(gyre::redis::client& cache, std::string user) {
  auto left = co_await cache.evaluate<std::optional<int>>(take_token, user, 2);
  co_return left.has_value();
}
// clang-format on

// clang-format off
gyre::task<> take_orders(gyre::redis::client& cache) {
  co_await cache.call<void>("XADD", "orders", "*", "item", "tea", "count", 2);
  auto orders = co_await cache.call<gyre::redis::stream_entries>("XRANGE", "orders", "-", "+");
  for (const gyre::redis::stream_entry& order : orders) {
    std::cout << *order.find("count") << ' ' << *order.find("item") << '\n';
  }
}
// clang-format on

struct RedisGuide : testing::Test {
  gyre::loop loop;
  gyre::test::redis_server server{loop};
  gyre::redis::client cache{loop, server.address()};

  std::string output_of(gyre::task<> program) {
    testing::internal::CaptureStdout();
    gyre::sync_wait(loop, std::move(program));
    return testing::internal::GetCapturedStdout();
  }
};

TEST_F(RedisGuide, Commands) {
  EXPECT_EQ(output_of(count_visits(cache)), "42 nobody\n");
  EXPECT_EQ(output_of(shapes(cache)), "5 1 1\n");
}

TEST_F(RedisGuide, Errors) {
  const auto read = [](gyre::redis::client& client) -> gyre::task<> {
    const std::string page = co_await page_or_nothing(client);
    EXPECT_EQ(page, "");
    co_await client.call<void>("RPUSH", "page", "x");
    const std::string list = co_await page_or_nothing(client);
    EXPECT_EQ(list, "");
  };
  const std::string output = output_of(read(cache));
  EXPECT_TRUE(output.starts_with("failed: ")) << output;
  EXPECT_TRUE(output.contains("\nrefused: WRONGTYPE ")) << output;
}

TEST_F(RedisGuide, Transactions) {
  EXPECT_EQ(output_of(move_money(cache)), "-10 10\n");
  output_of([](gyre::redis::client& client) -> gyre::task<> {
    co_await client.call<void>("SET", "number", 21);
    gyre::redis::session session = co_await client.open_session();
    co_await double_it(session);
    const int number = co_await client.call<int>("GET", "number");
    EXPECT_EQ(number, 42);
  }(cache));
}

TEST_F(RedisGuide, Sessions) {
  const auto push = [](gyre::redis::client& client) -> gyre::task<> {
    co_await client.call<void>("RPUSH", "jobs", "first", "stop");
  };
  const auto both = [&](gyre::redis::client& client) -> gyre::task<> {
    auto all = gyre::when_all(work(client), push(client));
    co_await std::move(all);
  };
  EXPECT_EQ(output_of(both(cache)), "job first\n");
}

TEST_F(RedisGuide, Messages) {
  const auto publish = [](gyre::redis::client& client) -> gyre::task<> {
    gyre::redis::subscription news = co_await client.subscribe("news");
    co_await client.call<void>("PUBLISH", "news", "hello");
    co_await client.call<void>("PUBLISH", "news", "bye");
    co_await follow(news);
  };
  EXPECT_EQ(output_of(publish(cache)), "news: hello\n");
}

TEST_F(RedisGuide, ScriptsAndStreams) {
  output_of([](gyre::redis::client& client) -> gyre::task<> {
    for (const bool expected : {true, true, false}) {
      const bool allowed = co_await is_allowed(client, "ada");
      EXPECT_EQ(allowed, expected);
    }
  }(cache));
  EXPECT_EQ(output_of(take_orders(cache)), "2 tea\n");
}

}  // namespace
}  // namespace redis_guide_test
