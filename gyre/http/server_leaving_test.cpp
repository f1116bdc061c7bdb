// SPDX-License-Identifier: Apache-2.0
// Tests of a server whose clients end their side, or leave, before they have their answers.
#include <gyre/http/server.hpp>

#include <gyre/http/event_stream.hpp>
#include <gyre/http/server_test_support.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace http_server_leaving_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::event_writer;
using gyre::http::request;
using gyre::http::responder;
using gyre::http::response;
using gyre::http::server_options;
using gyre::http::status;
using gyre::http::upgraded_connection;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class HttpServerLeaving : public server_fixture {
 protected:
  void make(server_options options = {}) {
    server_fixture::make(std::move(options));
    on->on_error([this](const request&, std::exception_ptr) { ++errors; });
  }
  // Waits until it is asked to stop, which is noted.
  task<> wait_for_stop(std::string name) {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      stopped.push_back(std::move(name));
      throw;
    }
  }
  task<response> answer_late(request& request) {
    task<> waiting = wait_for_stop(std::string(request.path()));
    co_await std::move(waiting);
    co_return response::text("late");
  }
  void serve_late(server_options options = {}) {
    make(std::move(options));
    on->get("/{path...}", [this](request& request) { return answer_late(request); });
    on->start();
  }
  void turn_until_active() {
    virtual_time.turn_until([&] { return on->metrics().active == 1; });
    virtual_time.settle();
  }
  void turn_until_over() {
    virtual_time.turn_until(
        [&] { return on->metrics().active == 0 && on->metrics().tcp.connections == 0; });
  }

  std::vector<std::string> stopped;
  int errors = 0;
};

TEST_F(HttpServerLeaving, AHandlerIsAskedToStopWhenItsClientCloses) {
  serve_late();
  peer client = connect();
  client.send(get("/a"));
  turn_until_active();
  EXPECT_THAT(stopped, ElementsAre());
  client.close();
  turn_until_over();
  EXPECT_THAT(stopped, ElementsAre("/a"));
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(on->metrics().requests, 1u);
  EXPECT_EQ(on->metrics().server_errors + on->metrics().successes, 0u) << "nobody was answered";
}

TEST_F(HttpServerLeaving, AClientThatHalfClosesGetsTheEndInsteadOfAnAnswer) {
  serve_late();
  peer client = connect();
  client.send(get("/"));
  client.end_sending();
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "");
  EXPECT_THAT(stopped, ElementsAre("/"));
}

TEST_F(HttpServerLeaving, AClientThatHalfClosesIsServedIfTheServerWantsThat) {
  serve_late({.serve_half_closed = true});
  peer client = connect();
  client.send(get("/"));
  client.end_sending();
  turn_until_active();
  virtual_time.advance(2h);
  EXPECT_THAT(next_response(client), EndsWith("\r\nConnection: close\r\n\r\nlate"));
  EXPECT_TRUE(ends(client));
  EXPECT_THAT(stopped, ElementsAre());
}

TEST_F(HttpServerLeaving, AHandlerThatAnswersNeverthelessIsHeard) {
  make();
  on->get("/", [](request&) -> task<response> {
    try {
      co_await gyre::sleep_for(1h);
    } catch (const gyre::operation_cancelled&) {
      co_return response::text("half done");
    }
    co_return status::ok;
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  client.end_sending();
  EXPECT_THAT(next_response(client), EndsWith("\r\nConnection: close\r\n\r\nhalf done"));
  EXPECT_TRUE(ends(client));
}

TEST_F(HttpServerLeaving, RequestsThatCameBeforeTheEndAreAnswered) {
  make();
  on->get("/{path...}", [this](request& request) -> task<response> {
    const std::string path(request.path());
    task<> waiting = wait_for_stop(path);
    co_await std::move(waiting);
    co_return response::text(path);
  });
  on->start();
  peer client = connect();
  client.send(get("/1") + get("/2"));
  client.end_sending();
  turn_until_active();
  EXPECT_THAT(stopped, ElementsAre()) << "the end was taken before the request in front of it";
  virtual_time.advance(2h);
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n/1"));
  EXPECT_TRUE(ends(client));
  EXPECT_THAT(stopped, ElementsAre("/2"));
}

TEST_F(HttpServerLeaving, WholeAnswersOfAPipelineAreSent) {
  make();
  on->get("/{path...}",
          [](request& request) { return response::text(std::string(request.path())); });
  on->start();
  peer client = connect();
  client.send(get("/1") + get("/2") + get("/3"));
  client.end_sending();
  for (const char* path : {"/1", "/2", "/3"}) EXPECT_THAT(next_response(client), EndsWith(path));
  EXPECT_TRUE(ends(client));
}

TEST_F(HttpServerLeaving, AnAnswerFromAnotherPlaceIsNotAwaited) {
  make();
  std::optional<responder> later;
  on->get("/", [&](request&, responder answer) { later.emplace(std::move(answer)); });
  on->start();
  peer client = connect();
  client.send(get("/"));
  turn_until_active();
  client.close();
  turn_until_over();
  later->send(response::text("too late"));
  virtual_time.settle();
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpServerLeaving, AStreamedResponseIsAskedToStop) {
  make();
  on->get("/", [this](request&) {
    return response::stream("text/plain", [this](body_writer& writer) -> task<> {
      co_await writer.write("begin");
      task<> waiting = wait_for_stop("stream");
      co_await std::move(waiting);
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] {
    client.receive();
    return client.text.ends_with("begin\r\n");
  });
  client.close();
  turn_until_over();
  EXPECT_THAT(stopped, ElementsAre("stream"));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpServerLeaving, AnEventStreamIsAskedToStop) {
  for (const auto keep_alive : {0s, 15s}) {
    make();
    on->get("/", [&](request&) {
      return gyre::http::event_stream(
          [this](event_writer& events) -> task<> {
            co_await events.send("one");
            task<> waiting = wait_for_stop("events");
            co_await std::move(waiting);
          },
          {.keep_alive = keep_alive});
    });
    on->start();
    peer client = connect();
    client.send(get("/"));
    virtual_time.turn_until([&] {
      client.receive();
      return client.text.find("data: one") != std::string::npos;
    });
    client.close();
    turn_until_over();
    EXPECT_THAT(stopped, ElementsAre("events"));
    EXPECT_EQ(errors, 0);
    stopped.clear();
  }
}

constexpr std::string_view offer = "Connection: upgrade\r\nUpgrade: echo\r\n";

TEST_F(HttpServerLeaving, AnUpgradedConnectionIsAskedToStop) {
  make();
  on->get("/", [this](request&) {
    return response::upgrade("echo",
                             [this](upgraded_connection&) { return wait_for_stop("upgraded"); });
  });
  on->start();
  peer client = connect();
  client.send(get("/", offer));
  EXPECT_THAT(next_response(client, true), StartsWith("HTTP/1.1 101 "));
  client.close();
  turn_until_over();
  EXPECT_THAT(stopped, ElementsAre("upgraded"));
  EXPECT_EQ(errors, 0);
}

// Reads all, then needs time for its last word.
TEST_F(HttpServerLeaving, AnUpgradedConnectionMayServeAHalfClosedClient) {
  make({.serve_half_closed = true});
  on->get("/", [this](request&) {
    return response::upgrade("echo", [this](upgraded_connection& client) -> task<> {
      std::string all;
      while (auto bytes = co_await client.next()) all += gyre::io::input(*bytes).text();
      task<> waiting = wait_for_stop("upgraded");
      co_await std::move(waiting);
      co_await client.write(all);
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/", offer));
  EXPECT_THAT(next_response(client, true), StartsWith("HTTP/1.1 101 "));
  client.send("question");
  client.end_sending();
  turn_until_active();
  virtual_time.advance(2h);
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "question");
  EXPECT_THAT(stopped, ElementsAre());
}

TEST_F(HttpServerLeaving, AHandlerThatDoesNotReadItsBodyIsAskedToStop) {
  make();
  on->post("/", [this](request& request) { return answer_late(request); }, {.streamed_body = true});
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf");
  turn_until_active();
  client.close();
  turn_until_over();
  EXPECT_THAT(stopped, ElementsAre("/"));
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpServerLeaving, AHandlerMayDestroyTheServerWhenItIsAskedToStop) {
  make();
  struct destroys {
    std::optional<gyre::http::server>* server;
    bool* done;
    ~destroys() {
      server->reset();
      *done = true;
    }
  };
  bool done = false;
  on->get("/", [this, &done](request& request) -> task<response> {
    const destroys guard{&on, &done};
    task<response> late = answer_late(request);
    co_return co_await std::move(late);
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  turn_until_active();
  client.close();
  virtual_time.turn_until([&] { return done; });
  virtual_time.settle();
  EXPECT_FALSE(on);
}

TEST_F(HttpServerLeaving, OtherConnectionsUseFreshRequestsAfterwards) {
  make();
  on->get("/late", [this](request& request) { return answer_late(request); });
  on->get("/soon", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    co_return response::text("soon");
  });
  on->start();
  for (int i = 0; i < 3; ++i) {
    peer leaving = connect();
    leaving.send(get("/late"));
    turn_until_active();
    leaving.close();
    turn_until_over();
    peer client = connect();
    client.send(get("/soon"));
    turn_until_active();
    virtual_time.advance(2s);
    EXPECT_THAT(next_response(client), EndsWith("\r\n\r\nsoon")) << "its stop was requested";
    client.close();
    turn_until_over();
  }
}

// --- Errors that clients cause ---

// The client's bytes are read, but it has gone when the answer is sent.
TEST_F(HttpServerLeaving, AStreamWhoseClientHasGoneIsNoError) {
  make();
  int ended = 0;
  on->get("/", [&ended](request&) {
    return response::stream("text/plain", [&ended](body_writer& writer) -> task<> {
      struct at_end {
        int* count;
        ~at_end() { ++*count; }
      } const guard{&ended};
      for (;;) co_await writer.write(std::string(1000, 'x'));
    });
  });
  on->start();
  for (int i = 1; i <= 3; ++i) {
    peer client = connect();
    virtual_time.turn_until([&] { return on->metrics().tcp.connections == 1; });
    client.send(get("/"));
    client.reset();
    virtual_time.turn_until([&] { return ended == i; });
    turn_until_over();
  }
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpServerLeaving, AMalformedBodyIsNoErrorOfTheStreamThatReadsIt) {
  make();
  on->post("/",
           [](request& request) {
             return response::stream("text/plain", [&request](body_writer& writer) -> task<> {
               co_await writer.write("begin");
               while (auto chunk = co_await request.next_chunk()) co_await writer.write(*chunk);
             });
           },
           {.streamed_body = true});
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  virtual_time.turn_until([&] {
    client.receive();
    return client.text.ends_with("begin\r\n");
  });
  client.send("no length\r\n");
  EXPECT_FALSE(ends(client)) << "a part was taken for the whole";
  turn_until_over();
  EXPECT_EQ(errors, 0);
}

TEST_F(HttpServerLeaving, ErrorsOfHandlersDoNotFillALog) {
  server_fixture::make();
  on->get("/", [](request&) -> response { throw std::runtime_error("as the client wants"); });
  on->start();
  peer client = connect();
  const auto printed_by = [&](int requests) {
    testing::internal::CaptureStderr();
    for (int i = 0; i < requests; ++i) {
      client.send(get("/"));
      EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 500 "));
    }
    return testing::internal::GetCapturedStderr();
  };
  const std::string first = printed_by(30);
  EXPECT_EQ(std::ranges::count(first, '\n'), 10) << first;
  virtual_time.advance(1s);
  const std::string second = printed_by(1);
  EXPECT_EQ(std::ranges::count(second, '\n'), 2) << second;
  EXPECT_THAT(second, StartsWith("gyre: http::server: 20 more errors of handlers"));
  EXPECT_THAT(second, HasSubstr("as the client wants"));
}

}  // namespace
}  // namespace http_server_leaving_test
