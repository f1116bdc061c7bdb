// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/event_stream.hpp>

#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace http_event_stream_test {
namespace {

using namespace gyre::net::test;
using gyre::task;
using gyre::http::event_stream_options;
using gyre::http::event_writer;
using gyre::http::request;
using gyre::http::server;
using testing::HasSubstr;
using testing::StartsWith;

class HttpEventStream : public testing::Test {
 protected:
  using writer = std::function<task<>(event_writer&)>;

  void serve(writer write, event_stream_options options = {}) {
    on.emplace(virtual_time.loop, any_port());
    on->get("/", [write, options](request&) { return gyre::http::event_stream(write, options); });
    on->start();
  }
  void open() {
    client.emplace(on->local_endpoint());
    client->send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  // The events received, turning the loop until there is `last`.
  std::string events_until(std::string_view last) {
    std::string events;
    virtual_time.turn_until([&] {
      client->receive();
      events = unchunked(client->text);
      return client->ended || events.find(last) != std::string::npos;
    });
    return events;
  }
  static std::string unchunked(std::string_view text) {
    const std::size_t head = text.find("\r\n\r\n");
    if (head == std::string_view::npos) return {};
    text.remove_prefix(head + 4);
    std::string body;
    for (;;) {
      const std::size_t end = text.find("\r\n");
      if (end == std::string_view::npos) return body;
      const std::size_t size = std::strtoul(std::string(text.substr(0, end)).c_str(), nullptr, 16);
      if (size == 0) return body + "(end)";
      body += text.substr(end + 2, size);
      text.remove_prefix(std::min(text.size(), end + 2 + size + 2));
    }
  }

  gyre::test::io_in_virtual_time virtual_time;
  std::optional<server> on;
  std::optional<peer> client;
};

TEST_F(HttpEventStream, SendsEvents) {
  serve([](event_writer& events) -> task<> {
    co_await events.send("one");
    co_await events.send({.data = "two", .event = "news", .id = "7", .retry = 1500ms});
    co_await events.comment("hello");
    co_await events.send({.data = "", .id = ""});
  });
  open();
  EXPECT_EQ(events_until("(end)"),
            "data: one\n\nevent: news\nid: 7\nretry: 1500\ndata: two\n\n: hello\n\n"
            "id: \n\n(end)");
  EXPECT_THAT(client->text, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                       "Cache-Control: no-cache\r\n"));
}

TEST_F(HttpEventStream, KeepsLinesAndCannotBeInjectedInto) {
  serve([](event_writer& events) -> task<> {
    co_await events.send("a\nb\r\nc\rid: 1\n\nevent: x");
    co_await events.comment("a\ndata: b");
    for (const std::string_view bad :
         {std::string_view("a\nb"), std::string_view("a\rb"), std::string_view("a\0b", 3)}) {
      if (bad[1] != '\0') {
        EXPECT_THROW(static_cast<void>(events.send({.event = bad})), std::invalid_argument);
      }
      EXPECT_THROW(static_cast<void>(events.send({.id = bad})), std::invalid_argument);
    }
    EXPECT_THROW(static_cast<void>(events.send({.retry = -1ms})), std::invalid_argument);
  });
  open();
  EXPECT_EQ(events_until("(end)"),
            "data: a\ndata: b\ndata: c\ndata: id: 1\ndata: \ndata: event: x\n\n"
            ": a\n: data: b\n\n(end)");
}

TEST_F(HttpEventStream, PingsWhileThereAreNoEvents) {
  serve(
      [](event_writer& events) -> task<> {
        co_await gyre::sleep_for(10s);
        co_await events.send("late");
        co_await gyre::sleep_for(1h);
      },
      {.keep_alive = 7s});
  open();
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  virtual_time.settle();
  virtual_time.advance(8s);
  EXPECT_EQ(events_until("\n\n"), ": \n\n");
  virtual_time.advance(3s);
  EXPECT_EQ(events_until("late\n\n"), ": \n\ndata: late\n\n");
  virtual_time.advance(8s);  // there was an event
  virtual_time.settle();
  virtual_time.advance(8s);
  EXPECT_EQ(events_until("late\n\n: \n\n"), ": \n\ndata: late\n\n: \n\n");
}

TEST_F(HttpEventStream, SeveralCoroutinesWrite) {
  serve([](event_writer& events) -> task<> {
    auto one = events.send(std::string(100'000, 'a'));
    auto other = events.send(std::string(100'000, 'b'));
    auto both = gyre::when_all(std::move(one), std::move(other));
    co_await std::move(both);
  });
  open();
  EXPECT_EQ(events_until("(end)"), "data: " + std::string(100'000, 'a') +
                                       "\n\ndata: " + std::string(100'000, 'b') + "\n\n(end)");
}

TEST_F(HttpEventStream, StopsWhenTheClientLeaves) {
  bool stopped = false;
  serve([&stopped](event_writer&) -> task<> {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      stopped = true;
      throw;
    }
  });
  open();
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  client->reset();
  virtual_time.turn_until([&] { return stopped && on->metrics().active == 0; });
}

TEST_F(HttpEventStream, AStopOfTheServerEndsItWholly) {
  for (const auto keep_alive : {0s, 15s}) {
    serve(
        [](event_writer& events) -> task<> {
          co_await events.send("one");
          co_await gyre::sleep_for(1h);
          co_await events.send("two");
        },
        {.keep_alive = keep_alive});
    open();
    EXPECT_EQ(events_until("\n\n"), "data: one\n\n");
    bool done = false;
    on->stop(1h, [&] { done = true; });
    EXPECT_EQ(events_until("(end)"), "data: one\n\n(end)");
    virtual_time.turn_until([&] {
      client->receive();
      return client->ended;
    });
    EXPECT_EQ(client->error, 0);
    client->close();
    virtual_time.turn_until([&] { return done; });
  }
}

TEST_F(HttpEventStream, GivesTheLastEventId) {
  on.emplace(virtual_time.loop, any_port());
  on->get("/", [](request& request) {
    return gyre::http::response::text(
        std::string(gyre::http::last_event_id(request).value_or("none")));
  });
  on->start();
  client.emplace(on->local_endpoint());
  client->send("GET / HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 42\r\n\r\n");
  virtual_time.turn_until([&] {
    client->receive();
    return client->text.ends_with("\r\n\r\n42");
  });
}

}  // namespace
}  // namespace http_event_stream_test
