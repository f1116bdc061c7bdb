// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/cached_client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/redis_server.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace redis_cached_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::redis::cache_options;
using gyre::redis::cached_client;
using gyre::redis::client;
using gyre::redis::client_options;
using gyre::redis::errc;
using gyre::test::redis_server;
using gyre::test::calls::error_of;

using text = std::optional<std::string>;

struct RedisCache : testing::Test {
  gyre::loop loop;
  redis_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  cached_client connect(const client_options& options = {}, const cache_options& memory = {}) {
    return cached_client(loop, server.address(), options, memory);
  }
};

// Reads until `key` has the value `expected`, of which a message may be on its way.
task<> read_until(cached_client& cache, std::string key, text expected) {
  text value = co_await cache.read<text>("GET", key);
  while (value != expected) {
    co_await gyre::sleep_for(1ms);
    value = co_await cache.read<text>("GET", key);
  }
}

TEST_F(RedisCache, ReadsOnceUntilAnotherClientWrites) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    client other(test.loop, test.server.address());
    co_await other.call<void>("SET", "a", "first");
    for (int each = 0; each < 3; ++each) {
      EXPECT_EQ(co_await cache.read<text>("GET", "a"), "first");
    }
    EXPECT_EQ(cache.metrics().misses, 1U);
    EXPECT_EQ(cache.metrics().hits, 2U);
    EXPECT_EQ(cache.metrics().keys, 1U);
    co_await other.call<void>("SET", "a", "second");
    co_await read_until(cache, "a", "second");
    EXPECT_EQ(cache.metrics().misses, 2U);
    EXPECT_EQ(cache.metrics().invalidations, 1U);
  }(*this));
}

TEST_F(RedisCache, SeesWritesOfItsOwn) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    EXPECT_EQ(co_await cache.read<text>("GET", "a"), std::nullopt);
    co_await cache.uncached().call<void>("SET", "a", "mine");
    co_await read_until(cache, "a", "mine");
    co_await cache.uncached().call<void>("DEL", "a");
    co_await read_until(cache, "a", std::nullopt);
    co_await cache.uncached().call<void>("SET", "a", "again");
    co_await read_until(cache, "a", "again");
    co_await cache.uncached().call<void>("FLUSHALL");
    co_await read_until(cache, "a", std::nullopt);
  }(*this));
}

TEST_F(RedisCache, KeepsRepliesOfDifferentCommandsForAKey) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    co_await cache.uncached().call<void>("HSET", "h", "x", 1, "y", 2);
    for (int each = 0; each < 2; ++each) {
      EXPECT_EQ(co_await cache.read<int>("HGET", "h", "x"), 1);
      EXPECT_EQ(co_await cache.read<int>("HGET", "h", "y"), 2);
      EXPECT_EQ((co_await cache.read<std::map<std::string, int>>("HGETALL", "h")).size(), 2U);
    }
    EXPECT_EQ(cache.metrics().misses, 3U);
    EXPECT_EQ(cache.metrics().keys, 1U);
    co_await cache.uncached().call<void>("HSET", "h", "x", 3);
    int read = 1;
    while (read == 1) read = co_await cache.read<int>("HGET", "h", "x");
    EXPECT_EQ(read, 3);
    EXPECT_EQ(co_await cache.read<int>("HGET", "h", "y"), 2);
    EXPECT_EQ(cache.metrics().misses, 5U);
  }(*this));
}

TEST_F(RedisCache, SendsOneCommandForAllThatWait) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    co_await cache.uncached().call<void>("SET", "a", 7);
    std::vector<task<>> all;
    for (int each = 0; each < 20; ++each) {
      all.push_back([](cached_client& target) -> task<> {
        EXPECT_EQ(co_await target.read<int>("GET", "a"), 7);
      }(cache));
    }
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(cache.uncached().metrics().commands, 2U);
  }(*this));
}

TEST_F(RedisCache, ForgetsAllWhenTheConnectionEnds) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    client other(test.loop, test.server.address());
    co_await other.call<void>("SET", "a", "first");
    EXPECT_EQ(co_await cache.read<text>("GET", "a"), "first");
    const auto id = co_await cache.uncached().call<long>("CLIENT", "ID");
    co_await other.call<void>("CLIENT", "KILL", "ID", id);
    while (cache.metrics().keys > 0) co_await gyre::sleep_for(1ms);
    co_await other.call<void>("SET", "a", "second");
    EXPECT_EQ(co_await cache.read<text>("GET", "a"), "second");
    cache.close();
    EXPECT_EQ(co_await error_of(cache.read<text>("GET", "a")), gyre::io::errc::not_open);
  }(*this));
}

TEST_F(RedisCache, KeepsNoErrors) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    co_await cache.uncached().call<void>("RPUSH", "list", "x");
    for (int each = 0; each < 2; ++each) {
      EXPECT_EQ(co_await error_of(cache.read<text>("GET", "list")), errc::wrong_type);
    }
    EXPECT_EQ(cache.metrics().misses, 2U);
    EXPECT_EQ(cache.metrics().keys, 0U);
  }(*this));
}

TEST_F(RedisCache, IsBounded) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect({}, {.max_bytes = 100'000});
    const std::string value(10'000, 'x');
    for (int key = 0; key < 20; ++key) {
      co_await cache.uncached().call<void>("SET", key, value);
      EXPECT_EQ(co_await cache.read<std::string>("GET", std::to_string(key)), value);
      EXPECT_LE(cache.metrics().bytes, 100'000U);
    }
    EXPECT_EQ(cache.metrics().keys, 9U);
    EXPECT_EQ(co_await cache.read<std::string>("GET", "19"), value);
    EXPECT_EQ(cache.metrics().hits, 1U);
    // The commands of one key are bounded, too.
    co_await cache.uncached().call<void>("RPUSH", "list", "x");
    for (int each = 0; each < 200; ++each) co_await cache.read<text>("LINDEX", "list", each);
    EXPECT_LE(cache.metrics().bytes, 100'000U);
    cache.clear();
    EXPECT_EQ(cache.metrics().bytes, 0U);
  }(*this));
}

TEST_F(RedisCache, ReadsOldRepliesAgain) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect({}, {.max_age = 1ms});
    co_await cache.uncached().call<void>("SET", "a", 1);
    EXPECT_EQ(co_await cache.read<int>("GET", "a"), 1);
    co_await gyre::sleep_for(2ms);
    EXPECT_EQ(co_await cache.read<int>("GET", "a"), 1);
    EXPECT_EQ(cache.metrics().misses, 2U);
  }(*this));
}

TEST_F(RedisCache, RefusesOtherCommandsAndOptions) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    for (const char* name : {"SET", "MGET", "INCR", "EXISTS", "BLPOP"}) {
      EXPECT_EQ(co_await error_of(cache.read<void>(name, "a")), errc::not_cacheable) << name;
    }
    EXPECT_EQ(co_await cache.read<text>("get", "a"), std::nullopt);
    EXPECT_THROW(test.connect({}, {.max_bytes = 0}), std::invalid_argument);
    EXPECT_THROW(test.connect({}, {.max_age = 0s}), std::invalid_argument);
  }(*this));
}

TEST_F(RedisCache, AStoppedReadLeavesOthersWaiting) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    co_await cache.uncached().call<void>("SET", "a", 7);
    test.server.pause();
    gyre::inplace_stop_source source;
    auto stopping = [](RedisCache& fixture, cached_client& target,
                       gyre::inplace_stop_source& stop) -> task<> {
      while (target.uncached().metrics().in_flight == 0) co_await gyre::yield();
      stop.request_stop();
      fixture.server.resume();
    };
    auto stopped = gyre::as_task(gyre::stop_when(cache.read<int>("GET", "a"), source.get_token()));
    auto all = gyre::when_all(error_of(std::move(stopped)), cache.read<int>("GET", "a"),
                              stopping(test, cache, source));
    const auto [error, value, done] = co_await std::move(all);
    EXPECT_EQ(error, std::errc::operation_canceled);
    EXPECT_EQ(value, 7);
    EXPECT_EQ(cache.uncached().metrics().in_flight, 0U);
  }(*this));
}

// A change is told before the reply that it concerns, right after it, and long after it.
TEST_F(RedisCache, NeverKeepsAValueThatHasChanged) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    client other(test.loop, test.server.address());
    auto write = [](client& writer, int& newest, bool& has_ended) -> task<> {
      for (int value = 1; value <= 500; ++value) {
        co_await writer.call<void>("SET", "a", value);
        newest = value;
      }
      has_ended = true;
    };
    auto read = [](cached_client& reader, bool& has_ended) -> task<> {
      int last = 0;
      while (!has_ended) {
        const int value = (co_await reader.read<std::optional<int>>("GET", "a")).value_or(0);
        EXPECT_GE(value, last);
        last = value;
        co_await gyre::yield();
      }
    };
    int newest = 0;
    bool has_ended = false;
    auto all = gyre::when_all(write(other, newest, has_ended), read(cache, has_ended),
                              read(cache, has_ended));
    co_await std::move(all);
    co_await read_until(cache, "a", std::to_string(newest));
  }(*this));
}

TEST(RedisCacheOfAnOldServer, FailsTheCalls) {
  gyre::loop loop;
  gyre::net::tcp_listener listener{loop,
                                   gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0)};
  gyre::sync_wait(loop, [](gyre::loop& executor, gyre::net::tcp_listener& server_socket) -> task<> {
    cached_client cache(executor, server_socket.local_endpoint());
    auto serve = [](gyre::net::tcp_listener& acceptor) -> task<> {
      gyre::net::tcp_stream peer = co_await acceptor.accept();
      static_cast<void>(co_await peer.receive());
      co_await peer.write_all("-ERR unknown command `HELLO`\r\n");
      static_cast<void>(co_await gyre::as_result(peer.receive()));
    };
    auto both = gyre::when_all(error_of(cache.read<text>("GET", "a")), serve(server_socket));
    const auto [error, served] = co_await std::move(both);
    EXPECT_EQ(error, errc::not_supported);
  }(loop, listener));
}

TEST_F(RedisCache, IsClosedOnceItWasMovedFrom) {
  run([](RedisCache& test) -> task<> {
    cached_client cache = test.connect();
    cached_client moved = std::move(cache);
    EXPECT_EQ(co_await moved.read<text>("GET", "a"), std::nullopt);
    EXPECT_EQ(co_await error_of(cache.read<text>("GET", "a")), gyre::io::errc::not_open);
    EXPECT_EQ(cache.metrics().misses, 0U);
    cache.clear();
    cache.close();
    EXPECT_EQ(moved.metrics().keys, 1U);
  }(*this));
}

}  // namespace
}  // namespace redis_cached_client_test
