// SPDX-License-Identifier: Apache-2.0
// Tests of the handlers of a server in the record of live tasks.
#include <gyre/http/server.hpp>

#include <gyre/net/callback_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/live_tasks.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace http_server_live_tasks_test {
namespace {

using namespace gyre::net::test;
using gyre::live_tasks;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class HttpServerLiveTasks : public testing::Test {
 protected:
  void SetUp() override {
    gyre::record_live_tasks(true);
    on.get("/wait/{id}", [this](request&) -> task<response> {
      co_await released.wait();
      co_return response::text("done");
    });
    on.get("/stream", [this](request&) {
      return response::stream("text/plain", [this](body_writer& body) -> task<> {
        co_await body.write("first");
        co_await released.wait();
      });
    });
    on.get("/at-once", [](request&) { return response::text("done"); });
    on.start();
  }
  void TearDown() override { gyre::record_live_tasks(false); }

  static void send_get(const peer& from, std::string_view path) {
    from.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  void await_tasks(std::size_t number) {
    virtual_time.turn_until([&] { return live_tasks().size() == number; });
  }

  gyre::test::io_in_virtual_time virtual_time;
  gyre::manual_reset_event released;
  server on{virtual_time.loop, any_port()};
};

TEST_F(HttpServerLiveTasks, AHandlerThatWaitsIsListedWithItsRouteAndItsPeer) {
  peer client(on.local_endpoint());
  send_get(client, "/wait/7");
  await_tasks(1);
  const gyre::live_task found = live_tasks().at(0);
  EXPECT_EQ(found.name, "GET /wait/{id}");
  EXPECT_THAT(found.peer, HasSubstr(":"));
  EXPECT_EQ(found.from.line(), 0U);
  EXPECT_EQ(found.where, &virtual_time.loop);
  EXPECT_TRUE(found.has_begun);
  released.set();
  await_tasks(0);
}

TEST_F(HttpServerLiveTasks, HandlersThatWaitForEachOtherAreOneLineOfTheSummary) {
  peer one(on.local_endpoint());
  peer other(on.local_endpoint());
  send_get(one, "/wait/1");
  send_get(other, "/wait/2");
  await_tasks(2);
  EXPECT_THAT(gyre::live_tasks_summary(),
              testing::MatchesRegex("2 live tasks\n"
                                    "  2 of \"GET /wait/\\{id\\}\", the oldest for [0-9.]+ s, peer "
                                    "[^ ]+\n"));
  released.set();
  await_tasks(0);
}

TEST_F(HttpServerLiveTasks, AStreamIsListedUntilItsEnd) {
  peer client(on.local_endpoint());
  send_get(client, "/stream");
  await_tasks(1);
  EXPECT_EQ(live_tasks().at(0).name, "GET /stream");
  released.set();
  await_tasks(0);
}

TEST_F(HttpServerLiveTasks, AHandlerWhoseClientHasLeftIsListedUntilItsEnd) {
  peer client(on.local_endpoint());
  send_get(client, "/wait/7");
  await_tasks(1);
  client.reset();
  virtual_time.turn_until([&] { return on.metrics().tcp.connections == 0; });
  ASSERT_THAT(live_tasks(), SizeIs(1));
  EXPECT_EQ(live_tasks().at(0).name, "GET /wait/{id}");
  released.set();
  await_tasks(0);
}

TEST_F(HttpServerLiveTasks, AnOrdinaryFunctionIsNoTask) {
  peer client(on.local_endpoint());
  send_get(client, "/at-once");
  virtual_time.turn_until([&] { return on.metrics().successes == 1; });
  EXPECT_THAT(live_tasks(), IsEmpty());
}

}  // namespace
}  // namespace http_server_live_tasks_test
