// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/script.hpp>

#include <gyre/engines/redis/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/as_expected.hpp>
#include <tests/support/redis_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace redis_script_test {
namespace {

using gyre::task;
using gyre::redis::client;
using gyre::redis::errc;
using gyre::redis::script;
using testing::ElementsAre;

TEST(RedisScript, HasTheHashOfItsText) {
  EXPECT_EQ(script("return 1").hash(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
  EXPECT_EQ(script("").hash(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

struct RedisScripts : testing::Test {
  gyre::loop loop;
  gyre::test::redis_server server{loop};
};

TEST_F(RedisScripts, AreSentOnceAndThenNamed) {
  gyre::sync_wait(loop, [](RedisScripts& test) -> task<> {
    client cache(test.loop, test.server.address());
    const script increment("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    EXPECT_EQ(co_await cache.evaluate<int>(increment, "a", 2), 2);
    EXPECT_EQ(cache.metrics().commands, 2U);
    EXPECT_EQ(co_await cache.evaluate<int>(increment, std::string("a"), 3), 5);
    EXPECT_EQ(cache.metrics().commands, 3U);
    co_await cache.call<void>("SCRIPT", "FLUSH");
    EXPECT_EQ(co_await cache.evaluate<int>(increment, "a", 1), 6);
    EXPECT_EQ(cache.metrics().commands, 6U);
  }(*this));
}

TEST_F(RedisScripts, TakeAnyNumberOfKeys) {
  gyre::sync_wait(loop, [](RedisScripts& test) -> task<> {
    client cache(test.loop, test.server.address());
    const script counts("return {#KEYS, #ARGV}");
    const std::vector<std::string> keys = {"a", "b", "c"};
    EXPECT_THAT(co_await cache.evaluate<std::vector<int>>(counts, keys, 1), ElementsAre(3, 1));
    EXPECT_THAT(co_await cache.evaluate<std::vector<int>>(counts, std::tuple<>()),
                ElementsAre(0, 0));
    auto session = co_await cache.open_session();
    EXPECT_THAT(co_await session.evaluate<std::vector<int>>(counts, keys), ElementsAre(3, 0));
  }(*this));
}

TEST_F(RedisScripts, FailWithTheErrorOfTheServer) {
  gyre::sync_wait(loop, [](RedisScripts& test) -> task<> {
    client cache(test.loop, test.server.address());
    const script wrong("return redis.error_reply('WRONGTYPE x')");
    auto call = gyre::as_expected(cache.evaluate<int>(wrong, std::tuple<>()));
    const auto result = co_await std::move(call);
    EXPECT_EQ(result.error(), errc::wrong_type);
  }(*this));
}

TEST_F(RedisScripts, RunOnceIfTheyReturnAnErrorOfTheKindOfUnknownScripts) {
  gyre::sync_wait(loop, [](RedisScripts& test) -> task<> {
    client cache(test.loop, test.server.address());
    const script failing("redis.call('INCR', KEYS[1]) return redis.error_reply('NOSCRIPT x')");
    for (const int runs : {1, 2}) {
      auto call = gyre::as_expected(cache.evaluate<int>(failing, "a"));
      const auto result = co_await std::move(call);
      EXPECT_EQ(result.error(), errc::no_script);
      EXPECT_EQ(co_await cache.call<int>("GET", "a"), runs);
    }
  }(*this));
}

}  // namespace
}  // namespace redis_script_test
