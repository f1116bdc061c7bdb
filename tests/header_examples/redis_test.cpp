// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of the headers of engines/redis.
#include <gyre/engines/redis/cached_client.hpp>
#include <gyre/engines/redis/client.hpp>
#include <gyre/engines/redis/stream_entry.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/redis_server.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

namespace redis_test {

struct point {
  double x = 0;
  double y = 0;
};

}  // namespace redis_test

using redis_test::point;

// clang-format off
// gyre/engines/redis/argument_traits.hpp
template <>
struct gyre::redis::argument_traits<point> {
  static std::size_t count(const point&) { return 2; }
  static void write(gyre::io::buffer& output, const point& value) {
    gyre::redis::write_argument(output, value.x);
    gyre::redis::write_argument(output, value.y);
  }
};

// gyre/engines/redis/reply_cursor.hpp
template <>
struct gyre::redis::reply_traits<point> {
  static point read(gyre::redis::reply_cursor& values) {
    const auto [x, y] = gyre::redis::read_reply<std::pair<double, double>>(values);
    return {x, y};
  }
};
// clang-format on

namespace redis_test {
namespace {

struct RedisExamples : testing::Test {
  gyre::loop loop;
  gyre::test::redis_server real{loop};
  std::string server = real.address();

  void run(gyre::task<> example) { gyre::sync_wait(loop, std::move(example)); }
};

// gyre/engines/redis/client.hpp
gyre::task<> send_commands(gyre::loop& loop, std::string server) {
  // clang-format off
  gyre::redis::client cache(loop, server);  // such as "localhost:6379"

  co_await cache.call<void>("SET", "visits", 41);
  auto visits = co_await cache.call<std::int64_t>("INCR", "visits");
  auto name = co_await cache.call<std::optional<std::string>>("GET", "name");
  // clang-format on
  EXPECT_EQ(visits, 42);
  EXPECT_EQ(name, std::nullopt);
}

TEST_F(RedisExamples, Client) { run(send_commands(loop, server)); }

// gyre/engines/redis/argument_traits.hpp, reply_cursor.hpp
TEST_F(RedisExamples, TypesOfYourOwn) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await cache.call<void>("RPUSH", "p", point(1.5, -2));
    const auto read = co_await cache.call<point>("LRANGE", "p", 0, -1);
    EXPECT_EQ(read.x, 1.5);
    EXPECT_EQ(read.y, -2);
  }(*this));
}

// gyre/engines/redis/command.hpp
gyre::task<> transact(gyre::redis::client& cache) {
  // clang-format off
  auto [old, now] = co_await cache.transaction(
      gyre::redis::command<std::optional<std::string>>("GET", "visits"),
      gyre::redis::command<std::int64_t>("INCR", "visits"));
  // clang-format on
  EXPECT_EQ(old, std::nullopt);
  EXPECT_EQ(now, 1);
}

TEST_F(RedisExamples, Transaction) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await transact(cache);
  }(*this));
}

// gyre/engines/redis/error.hpp
gyre::task<> tolerate(gyre::redis::client& cache) {
  // clang-format off
  try {
    co_await cache.call<void>("LPUSH", "visits", "x");  // a string, not a list
  } catch (const gyre::redis::server_error& error) {
    if (error.code() != gyre::redis::errc::wrong_type) throw;
  }
  // clang-format on
}

TEST_F(RedisExamples, Errors) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await cache.call<void>("SET", "visits", 1);
    co_await tolerate(cache);
    EXPECT_EQ(co_await cache.call<int>("GET", "visits"), 1);
  }(*this));
}

// gyre/engines/redis/reply.hpp
gyre::task<> inspect(gyre::redis::client& cache) {
  std::string seen;
  const auto use = [&](const std::string& text) { seen += text; };
  // clang-format off
  gyre::redis::reply found = co_await cache.call("COMMAND", "INFO", "GET");
  for (const gyre::redis::reply& each : found.values) use(each.values.at(0).text);
  // clang-format on
  EXPECT_EQ(seen, "get");
}

TEST_F(RedisExamples, AnyReply) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await inspect(cache);
  }(*this));
}

// gyre/engines/redis/session.hpp
gyre::task<> wait_for_a_job(gyre::redis::client& cache) {
  // clang-format off
  gyre::redis::session session = co_await cache.open_session();
  auto job = co_await session.call<std::optional<std::pair<std::string, std::string>>>(
      "BLPOP", "jobs", 30);  // waits for up to 30 seconds
  // clang-format on
  EXPECT_EQ(job->second, "first");
}

TEST_F(RedisExamples, Session) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await cache.call<void>("RPUSH", "jobs", "first");
    co_await wait_for_a_job(cache);
  }(*this));
}

// gyre/engines/redis/script.hpp
gyre::task<> evaluate(gyre::redis::client& cache) {
  // clang-format off
  const gyre::redis::script add_if_there(
      "if redis.call('EXISTS', KEYS[1]) == 0 then return nil end "
      "return redis.call('INCRBY', KEYS[1], ARGV[1])");

  auto sum = co_await cache.evaluate<std::optional<int>>(add_if_there, "visits", 10);
  // clang-format on
  EXPECT_EQ(sum, 11);
}

TEST_F(RedisExamples, Script) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await cache.call<void>("SET", "visits", 1);
    co_await evaluate(cache);
  }(*this));
}

// gyre/engines/redis/stream_entry.hpp
gyre::task<> order(gyre::redis::client& cache) {
  // clang-format off
  auto id = co_await cache.call<std::string>("XADD", "orders", "*", "item", "tea");
  auto orders = co_await cache.call<gyre::redis::stream_entries>("XRANGE", "orders", "-", "+");
  auto unread = co_await cache.call<std::optional<gyre::redis::streams>>(
      "XREAD", "COUNT", 10, "STREAMS", "orders", "0");
  // clang-format on
  EXPECT_EQ(orders.at(0).id, id);
  EXPECT_EQ(unread->at("orders"), orders);
}

TEST_F(RedisExamples, Streams) {
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    co_await order(cache);
  }(*this));
}

// gyre/engines/redis/cached_client.hpp
gyre::task<> read_twice(gyre::loop& loop, std::string server) {
  // clang-format off
  gyre::redis::cached_client cache(loop, server, {}, {.max_bytes = 16 << 20});

  auto name = co_await cache.read<std::optional<std::string>>("GET", "user:7");
  name = co_await cache.read<std::optional<std::string>>("GET", "user:7");  // from memory
  co_await cache.uncached().call<void>("SET", "user:7", "Ada");
  // clang-format on
  EXPECT_EQ(name, std::nullopt);
  EXPECT_EQ(cache.metrics().hits, 1U);
}

TEST_F(RedisExamples, CachedClient) { run(read_twice(loop, server)); }

// gyre/engines/redis/subscription.hpp
gyre::task<> follow(gyre::redis::client& cache) {
  // clang-format off
  gyre::redis::subscription news = co_await cache.subscribe("news");
  while (auto message = co_await news.next()) {
    std::cout << message->text << '\n';
  }
  // clang-format on
}

gyre::task<> publish_and_close(gyre::redis::client& cache) {
  int receivers = 0;
  while (receivers == 0) receivers = co_await cache.call<int>("PUBLISH", "news", "hello");
  cache.close();
}

TEST_F(RedisExamples, Subscription) {
  testing::internal::CaptureStdout();
  run([](RedisExamples& test) -> gyre::task<> {
    gyre::redis::client cache(test.loop, test.server);
    auto both = gyre::when_all(follow(cache), publish_and_close(cache));
    co_await std::move(both);
  }(*this));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "hello\n");
}

}  // namespace
}  // namespace redis_test
