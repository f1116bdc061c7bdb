// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/stream_entry.hpp>

#include <gyre/engines/redis/client.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <tests/support/redis_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace redis_stream_entry_test {
namespace {

using namespace gyre::redis;
using gyre::task;
using testing::ElementsAre;
using testing::Pair;

stream_entry read(std::string_view bytes) {
  reply_cursor values(bytes);
  return read_reply<stream_entry>(values);
}

TEST(StreamEntry, HasAnIdAndFields) {
  const stream_entry entry = read("*2\r\n$3\r\n1-2\r\n*4\r\n+a\r\n+1\r\n+b\r\n+2\r\n");
  EXPECT_EQ(entry.id, "1-2");
  EXPECT_THAT(entry.fields, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_EQ(*entry.find("b"), "2");
  EXPECT_EQ(entry.find("c"), nullptr);
  EXPECT_FALSE(entry.is_deleted);
}

TEST(StreamEntry, MayBeDeleted) { EXPECT_TRUE(read("*2\r\n$3\r\n1-2\r\n*-1\r\n").is_deleted); }

TEST(StreamEntry, RefusesOtherReplies) {
  for (const char* bytes :
       {"*1\r\n+a\r\n", "*2\r\n+a\r\n*1\r\n+b\r\n", "+a\r\n", "*2\r\n+a\r\n:1\r\n"}) {
    EXPECT_THROW(read(bytes), std::system_error) << bytes;
  }
  EXPECT_THROW(read("-WRONGTYPE x\r\n"), server_error);
}

struct RedisStreams : testing::Test {
  gyre::loop loop;
  gyre::test::redis_server server{loop};
};

TEST_F(RedisStreams, AreReadByRangesAndGroups) {
  gyre::sync_wait(loop, [](RedisStreams& test) -> task<> {
    client cache(test.loop, test.server.address());
    co_await cache.call<void>("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM");
    const auto id = co_await cache.call<std::string>("XADD", "s", "*", "item", "tea");
    const auto all = co_await cache.call<stream_entries>("XRANGE", "s", "-", "+");
    EXPECT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].id, id);
    EXPECT_EQ(*all[0].find("item"), "tea");

    const auto unread = co_await cache.call<std::optional<streams>>("XREADGROUP", "GROUP", "g",
                                                                    "me", "STREAMS", "s", ">");
    EXPECT_EQ(unread->at("s"), all);
    const auto none = co_await cache.call<std::optional<streams>>("XREADGROUP", "GROUP", "g", "me",
                                                                  "STREAMS", "s", ">");
    EXPECT_FALSE(none);
    co_await cache.call<void>("XDEL", "s", id);
    const auto pending =
        co_await cache.call<streams>("XREADGROUP", "GROUP", "g", "me", "STREAMS", "s", "0");
    EXPECT_TRUE(pending.at("s").at(0).is_deleted);
    EXPECT_EQ(co_await cache.call<int>("XACK", "s", "g", id), 1);
  }(*this));
}

}  // namespace
}  // namespace redis_stream_entry_test
