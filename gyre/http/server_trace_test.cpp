// SPDX-License-Identifier: Apache-2.0
// The events of a server in the flight recorder, and the page that shows them.
#include <gyre/http/server.hpp>

#include <gyre/http/trace_handler.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/trace/dump.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

namespace http_server_trace_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::net::test;
using gyre::task;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server;
using testing::HasSubstr;
using testing::Not;

class HttpServerTrace : public testing::Test {
 protected:
  void SetUp() override {
    on.get("/report/{id}", [](request&) {
      std::this_thread::sleep_for(20ms);
      return response::text("done");
    });
    on.get("/wait", [this](request&) -> task<response> {
      co_await released.wait();
      co_return response::text("done");
    });
    on.get("/at_once", [](request&) -> task<response> {
      std::this_thread::sleep_for(10ms);
      co_return response::text("done");
    });
    on.get("/held", [](request&) -> task<response> {
      co_return response::text(gyre::trace::dump_text({.slow = 0ms}));
    });
    on.get("/debug/trace", gyre::http::trace_handler());
    on.start();
  }

  // Sends a request, and returns all that was received when `end` has come.
  std::string get(std::string_view path, std::string_view end) {
    client.send("GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    await_text(end);
    return client.text;
  }

  void await_text(std::string_view end) {
    virtual_time.turn_until([&] {
      client.receive();
      return client.text.contains(end);
    });
  }

  gyre::test::io_in_virtual_time virtual_time;
  gyre::manual_reset_event released;
  server on{virtual_time.loop, any_port()};
  peer client{on.local_endpoint()};
};

TEST_F(HttpServerTrace, NamesTheHandlerThatHeldTheLoop) {
  get("/report/7", "done");
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}), HasSubstr("by handler GET /report/{id} ("));
}

TEST_F(HttpServerTrace, RecordsARequestWhoseHandlerWaits) {
  client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
  virtual_time.turn_until([&] { return on.metrics().active == 1; });
  std::this_thread::sleep_for(20ms);  // the flight recorder has no virtual time
  released.set();
  await_text("done");
  const std::string text = gyre::trace::dump_text({.slow = 15ms});
  EXPECT_THAT(text, HasSubstr("request GET /wait: "));
  EXPECT_THAT(gyre::trace::dump_json(), HasSubstr("\"status\":200"));
}

TEST_F(HttpServerTrace, RecordsARequestWhoseHandlerDoesNotWaitOnce) {
  get("/at_once", "done");
  const std::string events = gyre::trace::dump_json();
  EXPECT_THAT(events, HasSubstr("\"name\":\"handler GET /at_once\""));
  EXPECT_THAT(events, Not(HasSubstr("\"name\":\"request GET /at_once\"")));
}

TEST_F(HttpServerTrace, NamesEachHandlerOfRequestsThatComeTogether) {
  client.send(
      "GET /at_once HTTP/1.1\r\nHost: a\r\n\r\n"
      "GET /report/7 HTTP/1.1\r\nHost: a\r\n\r\n");
  await_text("doneHTTP/1.1 200");
  const std::string text = gyre::trace::dump_text({.slow = 9ms});
  EXPECT_THAT(text, HasSubstr("by handler GET /at_once ("));
  EXPECT_THAT(text, HasSubstr("by handler GET /report/{id} ("));
}

TEST_F(HttpServerTrace, NamesACoroutineThatHoldsTheLoopByItsRoute) {
  EXPECT_THAT(get("/held", "threads"), HasSubstr("by handler GET /held\n"));
}

TEST_F(HttpServerTrace, ThePageShowsTheText) {
  get("/report/7", "done");
  EXPECT_THAT(get("/debug/trace?slow_ms=15", "threads"), HasSubstr("by handler GET /report/{id}"));
}

TEST_F(HttpServerTrace, ThePageShowsJson) {
  get("/report/7", "done");
  const std::string page = get("/debug/trace?format=json&seconds=60", "taken_us");
  EXPECT_THAT(page, HasSubstr("Content-Type: application/json"));
  EXPECT_THAT(page, HasSubstr("\"name\":\"handler GET /report/{id}\""));
}

TEST_F(HttpServerTrace, ThePageRefusesOtherParameters) {
  EXPECT_THAT(get("/debug/trace?format=xml", "format"), HasSubstr("400 Bad Request"));
  EXPECT_THAT(get("/debug/trace?seconds=-1", "seconds"), HasSubstr("400 Bad Request"));
}

}  // namespace
}  // namespace http_server_trace_test
