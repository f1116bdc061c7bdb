// SPDX-License-Identifier: Apache-2.0
// The commands of a client in the flight recorder.
#include <gyre/engines/redis/client.hpp>

#include <gyre/engines/redis/session.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/dump.hpp>
#include <tests/support/redis_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace redis_client_trace_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using testing::HasSubstr;

TEST(RedisClientTrace, NamesACommandForWhichTheServerTakesLong) {
  gyre::loop loop;
  const gyre::test::redis_server server(loop);
  gyre::sync_wait(loop, [](gyre::redis::client cache) -> task<> {
    task<gyre::redis::session> opening = cache.open_session();
    gyre::redis::session own = co_await std::move(opening);
    using popped = std::optional<std::pair<std::string, std::string>>;
    EXPECT_EQ(co_await own.call<popped>("BLPOP", "empty", 0.02), std::nullopt);
  }(gyre::redis::client(loop, server.address())));
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}), HasSubstr("command BLPOP: "));
}

TEST(RedisClientTrace, RecordsATransactionAsOneCommand) {
  gyre::loop loop;
  const gyre::test::redis_server server(loop);
  gyre::sync_wait(loop, [](gyre::redis::client cache) -> task<> {
    using gyre::redis::command;
    const auto [first, second] =
        co_await cache.transaction(command<int>("INCR", "visits"), command<int>("INCR", "visits"));
    EXPECT_EQ(first + second, 3);
  }(gyre::redis::client(loop, server.address())));
  EXPECT_THAT(gyre::trace::dump_json(), HasSubstr("\"cat\":\"redis\""));
}

}  // namespace
}  // namespace redis_client_trace_test
