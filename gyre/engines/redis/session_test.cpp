// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/session.hpp>

#include <gyre/engines/redis/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/io_in_virtual_time.hpp>
#include <tests/support/pass_time.hpp>
#include <tests/support/redis_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

namespace redis_session_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::redis::client;
using gyre::redis::client_options;
using gyre::redis::command;
using gyre::redis::errc;
using gyre::redis::session;
using gyre::test::redis_server;
using gyre::test::calls::error_of;

using popped = std::optional<std::pair<std::string, std::string>>;

struct RedisSession : testing::Test {
  gyre::loop loop;
  redis_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  client connect(const client_options& options = {}) {
    return client(loop, server.address(), options);
  }
};

TEST_F(RedisSession, WaitsInTheServerWhileTheClientGoesOn) {
  gyre::test::io_in_virtual_time time;
  auto test = [](RedisSession& self, gyre::test::io_in_virtual_time& passing) -> task<> {
    client cache(passing.loop, self.server.address(), {.ping_interval = 24h});
    client impatient(passing.loop, self.server.address(),
                     {.reply_timeout = 2s, .ping_interval = 24h});
    session own = co_await impatient.open_session();
    auto push = [](client& target, gyre::test::io_in_virtual_time& passed) -> task<> {
      std::string clients;
      while (!clients.contains("blocked_clients:1")) {
        clients = co_await target.call<std::string>("INFO", "clients");
      }
      co_await gyre::test::pass_time(passed, 60s);  // longer than the limit of other replies
      co_await target.call<void>("RPUSH", "jobs", "first");
    };
    auto both = gyre::when_all(own.call<popped>("BLPOP", "jobs", 0), push(cache, passing));
    const auto [job, pushed] = co_await std::move(both);
    EXPECT_EQ(job, popped(std::in_place, "jobs", "first"));
    EXPECT_TRUE(own.is_open());
  };
  gyre::sync_wait(time.loop, test(*this, time));
}

TEST_F(RedisSession, WatchesKeys) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect();
    session own = co_await cache.open_session();
    co_await own.call<void>("WATCH", "count");
    co_await cache.call<void>("INCR", "count");
    auto aborted = own.transaction(command<int>("INCR", "count"));
    EXPECT_EQ(co_await error_of(std::move(aborted)), errc::transaction_aborted);
    co_await own.call<void>("WATCH", "count");
    const int count = co_await own.call<int>("GET", "count");
    const auto [set] = co_await own.transaction(command<void>("SET", "count", count + 10));
    EXPECT_EQ(set, std::monostate());
    EXPECT_EQ(co_await cache.call<int>("GET", "count"), 11);
  }(*this));
}

TEST_F(RedisSession, AddsNothingToATransactionOfTheProgram) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect({.ping_interval = 2ms});
    client observer = test.connect();
    co_await cache.call<void>("ECHO", "x");
    session own = co_await cache.open_session();
    co_await own.call<void>("MULTI");
    co_await own.call<void>("SET", "a", 1);
    // The client has checked its shared connection several times, but not the session.
    const std::string_view counter = "cmdstat_ping:calls=";
    int pings = 0;
    while (pings < 5) {
      const auto statistics = co_await observer.call<std::string>("INFO", "commandstats");
      const std::size_t begin = statistics.find(counter);
      if (begin != std::string::npos) pings = std::stoi(statistics.substr(begin + counter.size()));
    }
    co_await own.call<void>("SET", "b", 2);
    EXPECT_THAT(co_await own.call<std::vector<std::string>>("EXEC"),
                testing::ElementsAre("OK", "OK"));
    EXPECT_TRUE(own.is_open());
  }(*this));
}

TEST_F(RedisSession, HasADatabaseOfItsOwn) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect();
    session own = co_await cache.open_session();
    co_await own.call<void>("SELECT", 3);
    co_await own.call<void>("SET", "a", 1);
    EXPECT_EQ(co_await cache.call<int>("EXISTS", "a"), 0);
  }(*this));
}

TEST_F(RedisSession, RefusesCommandsThatChangeTheProtocol) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect();
    session own = co_await cache.open_session();
    for (const char* name : {"MONITOR", "hello", "SUBSCRIBE", "RESET"}) {
      EXPECT_EQ(co_await error_of(own.call<void>(name, "x")), errc::command_refused) << name;
      EXPECT_EQ(co_await error_of(cache.call<void>(name, "x")), errc::command_refused) << name;
    }
    EXPECT_EQ(co_await error_of(own.call<void>("CLIENT", "REPLY", "OFF")), errc::command_refused);
    EXPECT_EQ(co_await own.call<std::string>("PING"), "PONG");
  }(*this));
}

TEST_F(RedisSession, TakesReadsThatMayBlock) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect();
    using reply = std::optional<gyre::redis::reply>;
    auto refused = cache.call<reply>("XREAD", "BLOCK", 1, "STREAMS", "s", "$");
    EXPECT_EQ(co_await error_of(std::move(refused)), errc::needs_session);
    // A stream may have the name of an option.
    EXPECT_EQ(co_await cache.call<reply>("XREAD", "STREAMS", "BLOCK", "0"), std::nullopt);
    session own = co_await cache.open_session();
    EXPECT_EQ(co_await own.call<reply>("XREAD", "BLOCK", 1, "STREAMS", "s", "$"), std::nullopt);
  }(*this));
}

TEST_F(RedisSession, AStopEndsTheSessionAndFreesTheServer) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect();
    session own = co_await cache.open_session();
    gyre::inplace_stop_source source;
    auto stopping = [](client& observer, gyre::inplace_stop_source& stop_source) -> task<> {
      bool is_blocked = false;
      while (!is_blocked) {
        const auto info = co_await observer.call<std::string>("INFO", "clients");
        is_blocked = info.contains("blocked_clients:1");
      }
      stop_source.request_stop();
    };
    auto popping =
        gyre::as_task(gyre::stop_when(own.call<popped>("BLPOP", "jobs", 0), source.get_token()));
    auto both = gyre::when_all(error_of(std::move(popping)), stopping(cache, source));
    const auto [error, stopped] = co_await std::move(both);
    EXPECT_EQ(error, std::errc::operation_canceled);
    EXPECT_EQ(co_await error_of(own.call<void>("PING")), errc::connection_lost);
    EXPECT_FALSE(own.is_open());
    // The value is left for another: the server has noticed the end.
    bool is_blocked = true;
    while (is_blocked) {
      const auto info = co_await cache.call<std::string>("INFO", "clients");
      is_blocked = !info.contains("blocked_clients:0");
    }
    co_await cache.call<void>("RPUSH", "jobs", "first");
    EXPECT_EQ(co_await cache.call<int>("LLEN", "jobs"), 1);
  }(*this));
}

TEST_F(RedisSession, EndsWithItsConnection) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect();
    session own = co_await cache.open_session();
    const auto id = co_await own.call<long>("CLIENT", "ID");
    co_await own.call<void>("WATCH", "count");
    EXPECT_EQ(co_await cache.call<int>("CLIENT", "KILL", "ID", id), 1);
    // As the watch is gone, the transaction must fail, and not over another connection.
    auto transaction = own.transaction(command<int>("INCR", "count"));
    EXPECT_EQ(co_await error_of(std::move(transaction)), errc::connection_lost);
    EXPECT_EQ(co_await error_of(own.call<void>("PING")), errc::connection_lost);
    EXPECT_EQ(co_await cache.call<int>("EXISTS", "count"), 0);
    own = co_await cache.open_session();
    EXPECT_EQ(co_await own.call<std::string>("PING"), "PONG");
  }(*this));
}

TEST_F(RedisSession, SessionsAreBounded) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect({.max_sessions = 2});
    session first = co_await cache.open_session();
    session second = co_await cache.open_session();
    EXPECT_EQ(cache.metrics().sessions, 2U);
    EXPECT_EQ(co_await error_of(cache.open_session()), errc::too_many_sessions);
    first.close();
    session third = co_await cache.open_session();
    EXPECT_EQ(co_await third.call<std::string>("PING"), "PONG");
    EXPECT_EQ(co_await error_of(first.call<void>("PING")), gyre::io::errc::not_open);
  }(*this));
}

TEST_F(RedisSession, FailsToOpenWhenNobodyListens) {
  run([](RedisSession& test) -> task<> {
    client cache = test.connect({.max_connect_attempts = 2, .initial_delay = 1ms});
    co_await test.server.kill();
    EXPECT_EQ(co_await error_of(cache.open_session()), std::errc::connection_refused);
    EXPECT_EQ(cache.metrics().sessions, 0U);
    cache.close();
    EXPECT_EQ(co_await error_of(cache.open_session()), gyre::io::errc::not_open);
    session none;
    EXPECT_EQ(co_await error_of(none.call<void>("PING")), gyre::io::errc::not_open);
  }(*this));
}

TEST_F(RedisSession, OutlivesItsClient) {
  run([](RedisSession& test) -> task<> {
    std::optional<client> cache(test.connect());
    session own = co_await cache->open_session();
    cache.reset();
    EXPECT_EQ(co_await own.call<std::string>("PING"), "PONG");
  }(*this));
}

}  // namespace
}  // namespace redis_session_test
