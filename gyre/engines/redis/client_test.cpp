// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/redis_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace redis_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::redis::client;
using gyre::redis::client_options;
using gyre::redis::command;
using gyre::redis::errc;
using gyre::redis::subscription;
using gyre::test::redis_server;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// A loop, and a server of its own.
struct RedisClient : testing::Test {
  gyre::loop loop;
  redis_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  client connect(const client_options& options = {}) {
    return client(loop, server.address(), options);
  }
};

// Waits until the output of the present turn was sent: timers expire in later turns.
task<> flushed(client& cache, std::size_t in_flight) {
  while (cache.metrics().in_flight < in_flight) co_await gyre::yield();
  co_await gyre::sleep_for(1ms);
}

TEST_F(RedisClient, SendsCommandsAndReadsReplies) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    co_await cache.call<void>("SET", "visits", 41);
    EXPECT_EQ(co_await cache.call<std::int64_t>("INCR", "visits"), 42);
    EXPECT_EQ(co_await cache.call<std::optional<std::string>>("GET", "name"), std::nullopt);
    const std::map<std::string, int> fields = {{"a", 1}, {"b", 2}};
    EXPECT_EQ(co_await cache.call<int>("HSET", "map", fields), 2);
    const auto read = co_await cache.call<std::map<std::string, int>>("HGETALL", "map");
    EXPECT_EQ(read, fields);
    EXPECT_TRUE(co_await cache.call<bool>("SET", "once", "x", "NX"));
    EXPECT_FALSE(co_await cache.call<bool>("SET", "once", "y", "NX"));
  }(*this));
}

TEST_F(RedisClient, CarriesLargeValues) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    const std::string value(5'000'000, 'x');
    co_await cache.call<void>("SET", "large", value);
    EXPECT_EQ(co_await cache.call<std::string>("GET", "large"), value);
  }(*this));
}

TEST_F(RedisClient, RefusesRepliesThatAreTooLarge) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect({.max_reply = 100'000});
    co_await cache.call<void>("SET", "large", std::string(200'000, 'x'));
    EXPECT_EQ(co_await error_of(cache.call<void>("GET", "large")), errc::reply_too_large);
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
  }(*this));
}

TEST_F(RedisClient, ThrowsErrorsOfTheServerAndRemainsOfUse) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    co_await cache.call<void>("SET", "text", "x");
    EXPECT_EQ(co_await error_of(cache.call<void>("LPUSH", "text", "y")), errc::wrong_type);
    EXPECT_THAT(co_await message_of(cache.call<std::string>("GET", "none")),
                HasSubstr("std::optional"));
    EXPECT_THAT(co_await message_of(cache.call<int>("GET", "text")), HasSubstr("\"x\""));
    EXPECT_EQ(co_await cache.call<std::string>("GET", "text"), "x");
    EXPECT_EQ(cache.metrics().connections, 1U);
  }(*this));
}

task<> increment(client& cache, int times) {
  for (; times > 0; --times) co_await cache.call<void>("INCR", "count");
}

TEST_F(RedisClient, SharesOneConnectionAmongCoroutines) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect({.max_in_flight = 7});
    std::vector<task<>> all;
    for (int each = 0; each < 50; ++each) all.push_back(increment(cache, 20));
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(co_await cache.call<int>("GET", "count"), 1000);
    EXPECT_EQ(cache.metrics().connections, 1U);
    EXPECT_EQ(cache.metrics().commands, 1001U);
    EXPECT_EQ(cache.metrics().in_flight, 0U);
  }(*this));
}

TEST_F(RedisClient, RefusesCommandsThatNeedASession) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    for (const char* name : {"BLPOP", "watch", "Select", "MULTI", "WAIT"}) {
      EXPECT_EQ(co_await error_of(cache.call<void>(name, "x")), errc::needs_session) << name;
    }
    EXPECT_THAT(co_await message_of(cache.call("BLPOP", "x", 0)), HasSubstr("BLPOP"));
    EXPECT_EQ(cache.metrics().connections, 0U);
  }(*this));
}

TEST_F(RedisClient, CarriesOutTransactions) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    const auto [set, count, text] = co_await cache.transaction(
        command<void>("SET", "visits", 41), command<int>("INCR", "visits"),
        command<std::optional<std::string>>("GET", "none"));
    EXPECT_EQ(set, std::monostate());
    EXPECT_EQ(count, 42);
    EXPECT_EQ(text, std::nullopt);
  }(*this));
}

TEST_F(RedisClient, TellsWhyATransactionWasRefused) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    auto refused =
        cache.transaction(command<int>("INCR", "visits"), command<void>("SET", "visits"));
    EXPECT_THAT(co_await message_of(std::move(refused)), HasSubstr("wrong number of arguments"));
    EXPECT_EQ(co_await cache.call<int>("EXISTS", "visits"), 0);
    co_await cache.call<void>("SET", "text", "x");
    auto failing = cache.transaction(command<int>("INCR", "visits"), command<int>("INCR", "text"));
    EXPECT_THAT(co_await message_of(std::move(failing)), HasSubstr("not an integer"));
    EXPECT_EQ(co_await cache.call<int>("GET", "visits"), 1);
  }(*this));
}

TEST_F(RedisClient, DropsTheReplyOfAStoppedCall) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    co_await cache.call<void>("SET", "text", "first");
    test.server.pause();
    gyre::inplace_stop_source source;
    auto stopped =
        gyre::as_task(gyre::stop_when(cache.call<void>("GET", "text"), source.get_token()));
    auto stopping = [](gyre::inplace_stop_source& stop_source) -> task<> {
      stop_source.request_stop();
      co_return;
    };
    auto both = gyre::when_all(error_of(std::move(stopped)), stopping(source));
    const auto [error, done] = co_await std::move(both);
    EXPECT_EQ(error, std::errc::operation_canceled);
    test.server.resume();
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
    EXPECT_EQ(cache.metrics().connections, 1U);
  }(*this));
}

TEST_F(RedisClient, FailsCallsInFlightWhenTheServerIsKilled) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
    test.server.pause();
    auto kill = [](redis_server& process, client& target) -> task<> {
      co_await flushed(target, 2);
      co_await process.kill();
    };
    auto calls = gyre::when_all(error_of(cache.call<void>("INCR", "a")),
                                error_of(cache.call<void>("INCR", "a")), kill(test.server, cache));
    const auto [first, second, killed] = co_await std::move(calls);
    EXPECT_EQ(first, errc::connection_lost);
    EXPECT_EQ(second, errc::connection_lost);
    co_await test.server.start_again();
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
    // More than 2 if the killed server's socket still took a connection.
    EXPECT_GE(cache.metrics().connections, 2U);
  }(*this));
}

TEST_F(RedisClient, RepeatsIdempotentCalls) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect({.max_connect_attempts = 1000});
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
    test.server.pause();
    auto restart = [](redis_server& process, client& target) -> task<> {
      co_await flushed(target, 1);
      co_await process.kill();
      co_await process.start_again();
    };
    auto calls =
        gyre::when_all(cache.call_idempotent<int>("EXISTS", "a"), restart(test.server, cache));
    const auto [exists, restarted] = co_await std::move(calls);
    EXPECT_EQ(exists, 0);
    EXPECT_EQ(cache.metrics().retries, 1U);
  }(*this));
}

TEST_F(RedisClient, FailsWhenNobodyListens) {
  run([](RedisClient& test) -> task<> {
    co_await test.server.kill();
    client cache = test.connect({.max_connect_attempts = 2, .initial_delay = 1ms});
    const std::string text = co_await message_of(cache.call<void>("PING"));
    EXPECT_THAT(text, HasSubstr("gyre::redis::client unix:"));
    EXPECT_THAT(text, HasSubstr("Connection refused"));
    co_await test.server.start_again();
    EXPECT_EQ(co_await cache.call<std::string>("PING"), "PONG");
  }(*this));
}

TEST_F(RedisClient, FollowsMessagesOfAChannel) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    subscription news = co_await cache.subscribe("news");
    subscription all = co_await cache.subscribe("n*", {.is_pattern = true});
    EXPECT_EQ(co_await cache.call<int>("PUBLISH", "news", "hello"), 2);
    for (subscription* each : {&news, &all}) {
      const auto message = co_await each->next();
      EXPECT_EQ(message->channel, "news");
      EXPECT_EQ(message->text, "hello");
      EXPECT_FALSE(message->follows_gap);
    }
    EXPECT_FALSE(news.try_next());
    all = subscription();
    EXPECT_EQ(co_await cache.call<int>("PUBLISH", "news", "again"), 1);
  }(*this));
}

TEST_F(RedisClient, SubscribesAgainAfterALostConnection) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    client other = test.connect();
    subscription news = co_await cache.subscribe("news");
    EXPECT_EQ(co_await other.call<int>("CLIENT", "KILL", "TYPE", "pubsub"), 1);
    int receivers = 0;
    while (receivers == 0) receivers = co_await other.call<int>("PUBLISH", "news", "x");
    const auto message = co_await news.next();
    EXPECT_EQ(message->text, "x");
    EXPECT_TRUE(message->follows_gap);
  }(*this));
}

TEST_F(RedisClient, ASubscriptionEndsWithTheErrorOfAServerThatRefusesItAfterAReconnect) {
  run([](RedisClient& test) -> task<> {
    client admin = test.connect();
    co_await admin.call<void>("ACL", "SETUSER", "bob", "on", ">secret", "~*", "&*", "+@all");
    client cache = test.connect({.user = "bob", .password = "secret"});
    subscription news = co_await cache.subscribe("news");
    subscription same = co_await cache.subscribe("news");
    subscription other = co_await cache.subscribe("other");
    co_await admin.call<void>("PUBLISH", "news", "last");
    // The server ends the connections of a user who may no longer listen to a channel.
    co_await admin.call<void>("ACL", "SETUSER", "bob", "resetchannels", "&other");
    int receivers = 0;
    while (receivers == 0) receivers = co_await admin.call<int>("PUBLISH", "other", "x");
    const auto message = co_await other.next();
    EXPECT_EQ(message->text, "x");
    EXPECT_TRUE(message->follows_gap);
    for (subscription* each : {&news, &same}) {
      const auto last = co_await each->next();
      EXPECT_EQ(last->text, "last");
      for (int twice = 0; twice < 2; ++twice) {
        auto ended = as_expected(gyre::with_timeout(each->next(), 30s));
        const auto result = co_await std::move(ended);
        EXPECT_EQ(result.error(), errc::no_permission);
      }
    }
    co_await admin.call<void>("ACL", "SETUSER", "bob", "&*");
    news = co_await cache.subscribe("news");
    EXPECT_EQ(co_await admin.call<int>("PUBLISH", "news", "again"), 1);
    EXPECT_EQ((co_await news.next())->text, "again");
  }(*this));
}

TEST_F(RedisClient, DropsTheOldestMessagesOfAFullSubscription) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    subscription news = co_await cache.subscribe("news", {.max_messages = 2});
    for (const int each : {1, 2, 3, 4}) co_await cache.call<void>("PUBLISH", "news", each);
    EXPECT_EQ(news.dropped(), 2U);
    const auto third = co_await news.next();
    EXPECT_EQ(third->text, "3");
    EXPECT_TRUE(third->follows_gap);
    const auto last = co_await news.next();
    EXPECT_EQ(last->text, "4");
    EXPECT_FALSE(last->follows_gap);
  }(*this));
}

TEST_F(RedisClient, EndsSubscriptionsAndCallsWhenItIsClosed) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    subscription news = co_await cache.subscribe("news");
    test.server.pause();
    auto closing = [](client& closed) -> task<> {
      closed.close();
      co_return;
    };
    auto calls = gyre::when_all(error_of(cache.call<void>("PING")), news.next(), closing(cache));
    const auto [error, message, closed] = co_await std::move(calls);
    EXPECT_EQ(error, gyre::io::errc::closed);
    EXPECT_EQ(message, std::nullopt);
    EXPECT_EQ(co_await error_of(cache.call<void>("PING")), gyre::io::errc::not_open);
    test.server.resume();
  }(*this));
}

TEST_F(RedisClient, BoundsTheCallsThatWait) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect({.max_in_flight = 1, .max_waiting = 1});
    auto calls =
        gyre::when_all(error_of(cache.call<void>("PING")), error_of(cache.call<void>("PING")));
    const auto [first, second] = co_await std::move(calls);
    EXPECT_EQ(first, std::error_code());
    EXPECT_EQ(second, gyre::io::errc::waiting_limit);
  }(*this));
}

TEST_F(RedisClient, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(connect({.max_in_flight = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.max_waiting = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.max_reply = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.max_connect_attempts = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.max_attempts = 0}), std::invalid_argument);
  EXPECT_THROW(connect({.reply_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(connect({.user = "me"}), std::invalid_argument);
}

TEST_F(RedisClient, RefusesOtherThreads) {
  client cache = connect();
  gyre::loop_thread other;
  auto call = gyre::on(other.loop(), error_of(cache.call<void>("PING")));
  const auto error = gyre::sync_wait(std::move(call));
  EXPECT_EQ(error, gyre::io::errc::wrong_thread);
}

TEST_F(RedisClient, FailsOnceItWasMovedFrom) {
  run([](RedisClient& test) -> task<> {
    client cache = test.connect();
    client moved = std::move(cache);
    EXPECT_EQ(co_await moved.call<std::string>("PING"), "PONG");
    EXPECT_EQ(co_await error_of(cache.call<void>("PING")), gyre::io::errc::not_open);
  }(*this));
}

struct RedisLogin : testing::Test {
  gyre::loop loop;
  redis_server server{loop, {"--requirepass", "secret"}};
};

TEST_F(RedisLogin, AuthenticatesAndSelectsADatabase) {
  gyre::sync_wait(loop, [](RedisLogin& test) -> task<> {
    client cache(test.loop, test.server.address(),
                 {.password = "secret", .name = "a-test", .database = 3});
    const auto info = co_await cache.call<std::string>("CLIENT", "INFO");
    EXPECT_THAT(info, HasSubstr("name=a-test"));
    EXPECT_THAT(info, HasSubstr("db=3"));
    EXPECT_THAT(info, HasSubstr("resp=3"));
  }(*this));
}

TEST_F(RedisLogin, AsksNoMoreForAMomentAfterAWrongPassword) {
  gyre::sync_wait(loop, [](RedisLogin& test) -> task<> {
    client cache(test.loop, test.server.address(), {.password = "wrong"});
    EXPECT_EQ(co_await error_of(cache.call<void>("PING")), errc::wrong_password);
    EXPECT_EQ(co_await error_of(cache.call<void>("PING")), errc::wrong_password);
    EXPECT_EQ(cache.metrics().connections, 1U);
    client without(test.loop, test.server.address());
    EXPECT_EQ(co_await error_of(without.call<void>("PING")), errc::no_auth);
  }(*this));
}

}  // namespace
}  // namespace redis_client_test
