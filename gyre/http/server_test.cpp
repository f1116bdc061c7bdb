// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/server.hpp>

#include <gyre/exec/loop_thread.hpp>
#include <gyre/http/server_test_support.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace http_server_test {
namespace {

using namespace gyre::http::test;
using namespace gyre::net::test;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::responder;
using gyre::http::response;
using gyre::http::server;
using gyre::http::server_options;
using gyre::http::status;
using gyre::http::upgraded_connection;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using HttpServer = gyre::http::test::server_fixture;

// --- Routes and the three forms of handlers ---

TEST_F(HttpServer, AnswersByAnOrdinaryFunction) {
  make();
  on->get("/hello/{name}",
          [](request& request) { return response::text("Hello, " + request.param("name")); });
  on->start();
  EXPECT_EQ(answer_to(get("/hello/J%C3%BCrgen?x=1")),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 14\r\n\r\nHello, J\u00fcrgen");
}

TEST_F(HttpServer, AnswersByACoroutine) {
  make();
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    co_return response::json("{}").set("Cache-Control", "no-store");
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  virtual_time.settle();
  client.receive();
  EXPECT_EQ(client.text, "");
  virtual_time.advance(2s);
  EXPECT_EQ(next_response(client),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
            "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(on->metrics().active, 0u);
}

TEST_F(HttpServer, AnswersByACallbackFromAnotherThread) {
  make();
  std::jthread other;
  on->get("/", [&](request&, responder answer) {
    other = std::jthread([answer] { answer.send(response::text("later")); });
  });
  on->start();
  EXPECT_THAT(answer_to(get("/")), EndsWith("\r\n\r\nlater"));
}

TEST_F(HttpServer, AResponderThatIsDroppedAnswers500) {
  make();
  on->on_error([](const request&, std::exception_ptr) {});
  on->get("/", [](request&, responder) {});
  on->start();
  EXPECT_THAT(answer_to(get("/")), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpServer, ChoosesByMethodAndPath) {
  make();
  on->get("/a", [](request&) { return response::text("get"); });
  on->post("/a", [](request&) { return response::text("post"); });
  on->get("/b/{rest...}", [](request& request) { return response::text(request.param("rest")); });
  on->start();
  EXPECT_THAT(answer_to(get("/a")), EndsWith("\r\n\r\nget"));
  EXPECT_THAT(answer_to(post("/a", "")), EndsWith("\r\n\r\npost"));
  EXPECT_THAT(answer_to(get("/b/c/d")), EndsWith("\r\n\r\nc/d"));
  EXPECT_THAT(answer_to(get("/c")), StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(answer_to("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"),
                             HasSubstr("\r\nAllow: GET, HEAD, POST, OPTIONS\r\n")));
  EXPECT_THAT(answer_to("OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 204 No Content\r\n"),
                             HasSubstr("\r\nAllow: GET, HEAD, POST, OPTIONS\r\n")));
  EXPECT_THAT(answer_to("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 204 No Content\r\n"), HasSubstr("\r\nAllow: ")));
  EXPECT_THAT(answer_to("OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n"),
              testing::AllOf(StartsWith("HTTP/1.1 204 No Content\r\n"), HasSubstr("\r\nAllow: ")));
}

TEST_F(HttpServer, OptionsForTheServerItselfHasOnePath) {
  make();
  std::string paths;
  on->use([&](request& request, gyre::http::next_handler next) -> task<response> {
    paths += std::string(request.path()) + '\n';
    task<response> rest = next(request);
    co_return co_await std::move(rest);
  });
  on->put("/a", [](request&) { return status::ok; });
  on->start();
  for (const char* target : {"*", "http://a", "http://a/"}) {
    EXPECT_THAT(answer_to("OPTIONS " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n"),
                target == std::string_view("http://a/")
                    ? testing::Matcher<std::string>(StartsWith("HTTP/1.1 404 "))
                    : HasSubstr("\r\nAllow: PUT, OPTIONS\r\n"));
  }
  EXPECT_EQ(paths, "*\n*\n/\n");
}

TEST_F(HttpServer, AnswersAnInformationalStatusOfAHandlerBy500) {
  make();
  on->get("/", [](request&) { return response(gyre::http::status::early_hints); });
  on->start();
  EXPECT_THAT(answer_to(get("/")), StartsWith("HTTP/1.1 500 "));
}

TEST_F(HttpServer, SendsAWholeBodyThatAPeerReadsSlowly) {
  make({.timeouts = {.idle = 1s}});
  const std::string body(std::size_t{12} << 20, 'x');
  on->get("/", [&](request&) { return response::text(body); });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().successes == 1; });
  virtual_time.advance(5s);
  virtual_time.settle();
  virtual_time.turn_until([&] {
    client.receive();
    if (client.text.size() > body.size()) virtual_time.advance(2s);
    return client.ended;
  });
  EXPECT_THAT(client.text.substr(client.text.size() - 10), EndsWith("xxxxxxxxxx"));
  EXPECT_GT(client.text.size(), body.size());
}

// A peer that reads a little now and then, for longer than close() may last.
class HttpServerToASlowPeer : public HttpServer {
 protected:
  void make_slow(std::chrono::nanoseconds write_timeout = 8s) {
    // Reading is not paused, so that the server sees what the peer sends.
    make({.tcp = {.connections = {.high_water = std::size_t{64} << 20,
                                  .write_timeout = write_timeout,
                                  .close_timeout = 4s,
                                  .close_limit = 10s}}});
    on->get("/", [this](request&) { return response::text(body); });
    on->start();
    client.emplace(on->local_endpoint(), receive_buffer);
  }
  // Reads in steps of a second, each of more than the kernel can buffer.
  void read_slowly() {
    while (!client->ended) {
      const std::size_t enough = client->text.size() + 400'000;
      virtual_time.turn_until([&] {
        client->receive_some();
        return client->ended || client->text.size() >= enough;
      });
      virtual_time.advance(1s);
      virtual_time.settle();
    }
  }
  void expect_all() {
    EXPECT_EQ(client->error, 0) << "the connection was reset";
    EXPECT_GT(client->text.size(), body.size());
    EXPECT_EQ(client->text.back(), 'y');
  }

  static constexpr int receive_buffer = 64 << 10;
  const std::string body = std::string(std::size_t{16} << 20, 'x') + 'y';
  std::optional<peer> client;
};

TEST_F(HttpServerToASlowPeer, SendsTheLastAnswerOfAConnectionWholly) {
  make_slow();
  for (const std::string& last :
       {get("/", "Connection: close\r\n"), std::string("GET / HTTP/1.0\r\n\r\n")}) {
    client.emplace(on->local_endpoint(), receive_buffer);
    client->send(last);
    read_slowly();
    expect_all();
  }
}

TEST_F(HttpServerToASlowPeer, SendsEverythingThoughThePeerHasEndedItsSide) {
  make_slow();
  client->send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().successes == 1; });
  client->end_sending();
  virtual_time.settle();
  read_slowly();
  expect_all();
}

TEST_F(HttpServerToASlowPeer, SendsEverythingWhileTheServerStops) {
  make_slow();
  client->send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().successes == 1; });
  bool done = false;
  on->stop(1h, [&] { done = true; });
  virtual_time.settle();
  read_slowly();
  expect_all();
  client->close();
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServerToASlowPeer, AStopDoesNotAwaitAPeerThatTakesNothing) {
  make_slow(10h);
  client->send(get("/", "Connection: close\r\n"));
  virtual_time.turn_until([&] { return on->metrics().successes == 1; });
  peer other(on->local_endpoint(), receive_buffer);
  other.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().successes == 2; });
  virtual_time.settle();
  bool done = false;
  on->stop(10h, [&] { done = true; });
  virtual_time.settle();
  EXPECT_FALSE(done);
  for (int seconds = 0; seconds < 100 && !done; ++seconds) {
    virtual_time.advance(1s);
    virtual_time.settle();
  }
  EXPECT_TRUE(done);
}

TEST_F(HttpServerToASlowPeer, ResetsALastAnswerOfWhichThePeerTakesNothing) {
  make_slow();
  client->send(get("/", "Connection: close\r\n"));
  virtual_time.turn_until([&] { return on->metrics().successes == 1; });
  for (int seconds = 0; seconds < 6; ++seconds) {
    virtual_time.advance(1s);
    virtual_time.settle();
  }
  EXPECT_EQ(on->metrics().tcp.connections, 1u) << "closed before write_timeout";
  // Bytes on their way may have been acknowledged in some of these.
  for (int seconds = 0; seconds < 100 && on->metrics().tcp.connections != 0; ++seconds) {
    virtual_time.advance(1s);
    virtual_time.settle();
  }
  EXPECT_EQ(on->metrics().tcp.connections, 0u);
  EXPECT_FALSE(ends(*client)) << "a part was taken for the whole";
}

TEST_F(HttpServer, AnAnswerThatFailsIsNoWorkAnyMore) {
  make();
  on->on_error([](const request&, std::exception_ptr) {});
  on->get("/", [](request&) {
    return response::stream("text/plain", [](gyre::http::body_writer&) -> task<> {
      throw std::runtime_error("before there is a task");
      return task<>();
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] {
    client.receive();
    return client.ended || client.error != 0;
  });
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
}

TEST_F(HttpServer, GivesASegmentEncoded) {
  make();
  on->get("/b/{rest...}", [](request& request) {
    const bool is_missing = request.raw_param("other").data() == nullptr;
    return response::text(std::string(request.raw_param("rest")) + (is_missing ? "" : "?"));
  });
  on->start();
  EXPECT_THAT(answer_to(get("/b/c%2Fd/%20")), EndsWith("\r\n\r\nc%2Fd/%20"));
}

TEST_F(HttpServer, HeadHasTheFieldsOfGetAndNoBody) {
  make();
  on->get("/", [](request&) { return response::text("body"); });
  on->start();
  peer client = connect();
  client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get("/"));
  EXPECT_EQ(next_response(client, true),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 4\r\n\r\n");
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\nbody"));
}

TEST_F(HttpServer, NoContentHasNoFramingFields) {
  make();
  on->get("/", [](request&) { return status::no_content; });
  on->start();
  EXPECT_EQ(answer_to(get("/")), "HTTP/1.1 204 No Content\r\n\r\n");
}

TEST_F(HttpServer, TheFramingOfAResponseIsTheServers) {
  make();
  on->get("/", [](request&) {
    return response::text("x").set("Content-Length", "7").set("Transfer-Encoding", "chunked");
  });
  on->start();
  EXPECT_EQ(answer_to(get("/")),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
            "Content-Length: 1\r\n\r\nx");
}

TEST_F(HttpServer, SendsADate) {
  make();
  on->get("/", [](request&) { return status::ok; });
  on->start();
  peer client = connect();
  client.send(get("/"));
  client.receive(virtual_time.loop, 60);
  EXPECT_THAT(client.text,
              testing::ContainsRegex("\r\nDate: [A-Z][a-z][a-z], [0-9 A-Za-z:]* GMT\r\n"));
}

TEST_F(HttpServer, ADateOfTheHandlerIsTheOnlyOne) {
  make();
  gyre::http::fields own;
  own.add("Date", "Thu, 26 Nov 2026 16:00:00 GMT").add("Content-Length", "7");
  on->get("/", [&](request&) {
    response answer(status::ok);
    answer.fields() = own;
    return answer;
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  const std::string_view whole =
      "HTTP/1.1 200 OK\r\nDate: Thu, 26 Nov 2026 16:00:00 GMT\r\n"
      "Content-Length: 0\r\n\r\n";
  client.receive(virtual_time.loop, whole.size());
  EXPECT_EQ(client.text, whole);
}

TEST_F(HttpServer, RoutesAndMiddlewareAreAddedBeforeTheStart) {
  make();
  on->start();
  EXPECT_THROW(on->get("/", [](request&) { return status::ok; }), std::logic_error);
  EXPECT_THROW(on->start(), std::logic_error);
  EXPECT_THROW(server(virtual_time.loop, {.limits = {.pipelined = 0}}), std::invalid_argument);
  EXPECT_THROW(server(virtual_time.loop, {.timeouts = {.idle = -1s}}), std::invalid_argument);
}

TEST_F(HttpServer, MiddlewareSurroundsHandlersTheFirstOutermost) {
  make();
  std::string calls;
  for (const char each : {'1', '2'}) {
    on->use([&calls, each](request& request, gyre::http::next_handler next) -> task<response> {
      calls += each;
      task<response> rest = next(request);
      response answer = co_await std::move(rest);
      calls += each;
      co_return std::move(answer.add("Via", std::string(1, each)));
    });
  }
  on->get("/", [&](request&) {
    calls += 'h';
    return response::text("x");
  });
  on->start();
  EXPECT_THAT(answer_to(get("/")), HasSubstr("\r\nVia: 2\r\nVia: 1\r\n"));
  EXPECT_EQ(calls, "12h21");
  EXPECT_THAT(answer_to(get("/none")),
              testing::AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("\r\nVia: 2\r\n")));
}

TEST_F(HttpServer, MiddlewareMayAnswerItself) {
  make();
  on->use([](request& request, gyre::http::next_handler next) -> task<response> {
    if (!request.field("Authorization")) co_return status::unauthorized;
    task<response> rest = next(request);
    co_return co_await std::move(rest);
  });
  on->get("/", [](request&) { return status::ok; });
  on->start();
  EXPECT_THAT(answer_to(get("/")), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(answer_to(get("/", "Authorization: x\r\n")), StartsWith("HTTP/1.1 200 "));
}

// --- Errors of handlers ---

TEST_F(HttpServer, AHandlerThatThrowsAnswers500AndIsReported) {
  make();
  std::string told;
  on->on_error([&](const request& request, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& thrown) {
      told += std::string(request.path()) + ": " + thrown.what() + "\n";
    }
  });
  on->get("/a", [](request&) -> response { throw std::runtime_error("one"); });
  on->get("/b", [](request&) -> task<response> {
    co_await gyre::sleep_for(0s);
    throw std::runtime_error("two");
  });
  on->get("/c", [](request&, responder) { throw std::runtime_error("three"); });
  on->start();
  peer client = connect();
  for (const char* path : {"/a", "/b", "/c"}) {
    client.send(get(path));
    EXPECT_EQ(next_response(client),
              "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
  }
  EXPECT_EQ(told, "/a: one\n/b: two\n/c: three\n");
  EXPECT_EQ(on->metrics().server_errors, 3u);
}

TEST_F(HttpServer, AnHttpErrorAnswersItsStatusAndText) {
  make();
  on->get("/", [](request&) -> response {
    throw gyre::http::http_error(status::conflict, "it exists");
  });
  on->start();
  EXPECT_THAT(answer_to(get("/")), testing::AllOf(StartsWith("HTTP/1.1 409 Conflict\r\n"),
                                                  EndsWith("\r\n\r\nit exists\n")));
}

// --- Connections ---

TEST_F(HttpServer, AnswersPipelinedRequestsInOrder) {
  make();
  on->get("/{n}", [](request& request) -> task<response> {
    const std::string number = request.param("n");
    if (number == "1") co_await gyre::sleep_for(1s);
    co_return response::text(number);
  });
  on->start();
  peer client = connect();
  std::string all;
  for (int i = 0; i < 300; ++i) all += get("/" + std::to_string(i));
  client.send(all);
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n0"));
  virtual_time.settle();
  client.receive();
  EXPECT_EQ(client.text, "");
  virtual_time.advance(2s);
  for (int i = 1; i < 300; ++i) {
    EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n" + std::to_string(i)));
  }
}

TEST_F(HttpServer, AnswersABatchWithOneSend) {
  make();
  on->get("/", [](request&) { return response::text("x"); });
  on->start();
  peer client = connect();
  client.send(get("/") + get("/") + get("/"));
  virtual_time.turn_until([&] { return client.receive_some(); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(take_response(client.text));
}

TEST_F(HttpServer, ConnectionCloseEndsTheConnection) {
  make();
  on->get("/", [](request&) { return response::text("x"); });
  on->get("/last", [](request&) { return response::text("x").set("Connection", "close"); });
  on->start();
  for (const std::string& last :
       {get("/", "Connection: close\r\n"), get("/last"), std::string("GET / HTTP/1.0\r\n\r\n")}) {
    peer client = connect();
    client.send(last + get("/"));
    EXPECT_THAT(next_response(client), HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_TRUE(ends(client));
    EXPECT_EQ(client.text, "");
  }
}

TEST_F(HttpServer, DoesNotAwaitTheEndOfAPeerThatAskedForTheClose) {
  make();
  const std::string large(2'000'000, 'x');
  on->get("/", [&](request&) { return response::text(large); });
  on->start();
  peer client = connect();
  client.send(get("/", "Connection: close\r\n"));
  EXPECT_THAT(next_response(client), EndsWith(large));
  EXPECT_TRUE(ends(client));
  virtual_time.turn_until([&] { return on->metrics().tcp.connections == 0; });
}

TEST_F(HttpServer, Http10KeepsAliveIfAsked) {
  make();
  on->get("/", [](request&) { return response::text("x"); });
  on->start();
  peer client = connect();
  for (int i = 0; i < 2; ++i) {
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_THAT(next_response(client), HasSubstr("\r\nConnection: keep-alive\r\n"));
  }
}

TEST_F(HttpServer, AStopIsRequestedWhenTheConnectionEnds) {
  make();
  bool stopped = false;
  struct at_end {
    bool* flag;
    ~at_end() { *flag = true; }
  };
  on->get("/", [&](request& request) -> task<response> {
    const at_end guard{&stopped};
    co_await gyre::sleep_for(1h);
    co_return response::text(std::string(request.path()));
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  client.reset();
  virtual_time.turn_until([&] { return stopped; });
  virtual_time.turn_until([&] { return on->metrics().active == 0; });
}

TEST_F(HttpServer, TheHostOfAnAbsoluteTargetReplacesHost) {
  make();
  on->get("/a", [](request& request) {
    return response::text(std::string(request.host()) + " " + std::string(request.path()));
  });
  on->start();
  EXPECT_THAT(answer_to("GET http://b:81/a?q HTTP/1.1\r\nHost: a\r\n\r\n"),
              EndsWith("\r\n\r\nb:81 /a"));
}

// --- Bodies of requests ---

TEST_F(HttpServer, GivesWholeBodies) {
  make();
  on->post("/", [](request& request) { return response::borrowed("text/plain", request.body()); });
  on->start();
  EXPECT_THAT(answer_to(post("/", "hello")), EndsWith("\r\n\r\nhello"));
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"),
              EndsWith("\r\n\r\nabcde"));
  const std::string large = long_text(300'000);
  EXPECT_THAT(answer_to(post("/", large)), EndsWith("\r\n\r\n" + large));
}

TEST_F(HttpServer, ReadsARequestThatComesByteByByte) {
  make();
  on->post("/", [](request& request) { return response::borrowed("text/plain", request.body()); });
  on->start();
  peer client = connect();
  const std::string bytes = post("/", "hello") +
                            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n" +
                            post("/", "");
  for (const char each : bytes) {
    client.send(std::string_view(&each, 1));
    virtual_time.settle();
  }
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\nhello"));
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\nabcde"));
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n"));
}

TEST_F(HttpServer, GivesTrailers) {
  make();
  on->post("/", [](request& request) {
    return response::text(std::string(request.trailers().get("checksum").value_or("none")));
  });
  on->start();
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "1\r\na\r\n0\r\nChecksum: 7\r\nContent-Length: 9\r\n\r\n"),
              EndsWith("\r\n\r\n7"));
}

TEST_F(HttpServer, SendsContinueForAWholeBody) {
  make();
  on->post("/", [](request& request) { return response::borrowed("text/plain", request.body()); });
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive(virtual_time.loop, 25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.text.clear();
  client.send("ok");
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\nok"));
}

TEST_F(HttpServer, RefusesABodyInsteadOfAskingForIt) {
  make({.limits = {.body = 10}});
  on->post("/", [](request&) { return status::ok; });
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 413 "));
  EXPECT_TRUE(ends(client));
}

task<response> count_streamed(request& request) {
  std::size_t size = 0;
  for (;;) {
    const auto chunk = co_await request.next_chunk();
    if (!chunk) break;
    size += chunk->size();
  }
  const std::string end(request.trailers().get("End").value_or(""));
  co_return response::text(std::to_string(size) + end);
}

TEST_F(HttpServer, StreamsBodies) {
  make();
  on->post("/", &count_streamed, {.streamed_body = true});
  on->start();
  EXPECT_THAT(answer_to(post("/", "")), EndsWith("\r\n\r\n0"));
  EXPECT_THAT(answer_to(post("/", "hello")), EndsWith("\r\n\r\n5"));
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "3\r\nabc\r\n0\r\nEnd: !\r\n\r\n"),
              EndsWith("\r\n\r\n3!"));
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive(virtual_time.loop, 25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.text.clear();
  client.send("hello" + get("/none"));
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n5"));
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServer, NeverSendsContinueBehindTheHeadOfAnAnswer) {
  make();
  on->post("/",
           [](request& request) {
             return response::stream("text/plain", [&request](body_writer& writer) -> task<> {
               const auto chunk = co_await request.next_chunk();
               co_await writer.write(*chunk);
             });
           },
           {.streamed_body = true});
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  virtual_time.turn_until([&] {
    client.receive();
    return client.text.ends_with("\r\n\r\n");
  });
  virtual_time.settle();
  client.send("hello");
  EXPECT_TRUE(ends(client));
  EXPECT_THAT(client.text, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(client.text, EndsWith("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
  EXPECT_THAT(client.text, Not(HasSubstr("100 Continue")));
}

// The peer sends much more than the handler asks for.
TEST_F(HttpServer, APeerWaitsWhileAHandlerDoesNotRead) {
  make();
  gyre::manual_reset_event go;
  on->post("/",
           [&](request& request) -> task<response> {
             co_await go.wait();
             task<response> rest = count_streamed(request);
             co_return co_await std::move(rest);
           },
           {.streamed_body = true});
  on->start();
  peer client = connect();
  constexpr std::size_t size = 64'000'000;
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
  const std::string piece(1 << 16, 'x');
  std::size_t sent = 0;
  const auto send_some = [&] {
    const auto count = ::send(client.fd(), piece.data(), std::min(piece.size(), size - sent),
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) sent += static_cast<std::size_t>(count);
    return count > 0;
  };
  int refused = 0;
  virtual_time.turn_until([&] {
    refused = send_some() ? 0 : refused + 1;
    return sent == size || refused == 100;
  });
  EXPECT_LT(sent, size);
  go.set();
  virtual_time.turn_until([&] {
    while (sent < size && send_some()) {
    }
    client.receive();
    return sent == size;
  });
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n" + std::to_string(size)));
}

TEST_F(HttpServer, AnAnswerBeforeTheEndOfTheBodyClosesTheConnection) {
  make();
  on->post("/", [](request&) { return response::text("no"); }, {.streamed_body = true});
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc");
  EXPECT_THAT(next_response(client),
              testing::AllOf(HasSubstr("\r\nConnection: close\r\n"), EndsWith("\r\n\r\nno")));
  EXPECT_TRUE(ends(client));
}

TEST_F(HttpServer, ATruncatedStreamedBodyIsAnError) {
  make();
  std::error_code told;
  on->post("/",
           [&](request& request) -> task<response> {
             try {
               task<response> rest = count_streamed(request);
               co_return co_await std::move(rest);
             } catch (const std::system_error& error) {
               told = error.code();
               throw;
             }
           },
           {.streamed_body = true});
  on->start();
  peer client = connect();
  client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc");
  client.end_sending();
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(told, gyre::http::errc::truncated);
}

TEST_F(HttpServer, NextChunkNeedsARouteWithStreamedBodies) {
  make();
  std::string told;
  on->on_error([&](const request&, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::logic_error& thrown) {
      told = thrown.what();
    }
  });
  on->post("/", &count_streamed);
  on->start();
  EXPECT_THAT(answer_to(post("/", "x")), StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(told, HasSubstr("streamed_body"));
}

// --- Bodies of responses ---

TEST_F(HttpServer, StreamsAResponse) {
  make();
  on->get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) -> task<> {
      co_await writer.write("one,");
      co_await gyre::sleep_for(0s);
      co_await writer.write("");
      co_await writer.write("two");
      writer.add_trailer("End", "yes");
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/") + get("/none"));
  EXPECT_EQ(next_response(client),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
            "4\r\none,\r\n3\r\ntwo\r\n0\r\nEnd: yes\r\n\r\n");
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServer, StreamsToHttp10UntilTheEnd) {
  make();
  on->get("/", [](request&) {
    return response::stream("text/plain",
                            [](body_writer& writer) -> task<> { co_await writer.write("all"); });
  });
  on->start();
  peer client = connect();
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(ends(client));
  EXPECT_THAT(client.text, testing::AllOf(HasSubstr("\r\nConnection: close\r\n"),
                                          Not(HasSubstr("chunked")), EndsWith("\r\n\r\nall")));
}

TEST_F(HttpServer, AStreamThatThrowsCutsTheResponse) {
  make();
  on->on_error([](const request&, std::exception_ptr) {});
  on->get("/", [](request&) {
    return response::stream("text/plain", [](body_writer& writer) -> task<> {
      co_await writer.write("part");
      throw std::runtime_error("no more");
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  EXPECT_FALSE(ends(client));
  EXPECT_THAT(client.text, Not(HasSubstr("\r\n0\r\n")));
}

TEST_F(HttpServer, AWriterWaitsForAPeerThatDoesNotRead) {
  make({.tcp = {.connections = {.high_water = 100'000}}});
  std::size_t written = 0;
  bool ended = false;
  on->get("/", [&](request&) {
    return response::stream("text/plain", [&](body_writer& writer) -> task<> {
      struct at_end {
        bool* flag;
        ~at_end() { *flag = true; }
      } const guard{&ended};
      const std::string piece(50'000, 'x');
      for (;;) {
        co_await writer.write(piece);
        written += piece.size();
      }
    });
  });
  on->start();
  {
    peer client(on->local_endpoint(), 4096);
    client.send(get("/"));
    virtual_time.turn_until([&] {
      const std::size_t before = written;
      for (int i = 0; i < 20; ++i) virtual_time.settle();
      return written != 0 && written == before;
    });
    const std::size_t before = written;
    virtual_time.turn_until([&] {
      client.receive();
      client.text.clear();
      return written > before + 1'000'000;
    });
    client.reset();
  }
  virtual_time.turn_until([&] { return ended; });
}

TEST_F(HttpServer, AWriterThatNeedNotWaitGivesWayToOthers) {
  make({.tcp = {.connections = {.high_water = 4'000'000}}});
  std::size_t written = 0;
  std::size_t written_before_others = 4'000'000;
  on->get("/", [&](request&) {
    return response::stream("text/plain", [&](body_writer& writer) -> task<> {
      virtual_time.loop.post([&] { written_before_others = written; });
      const std::string piece(50'000, 'x');
      while (written < 3'000'000) {
        co_await writer.write(piece);
        written += piece.size();
      }
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] {
    client.receive();
    return written >= 3'000'000;
  });
  EXPECT_LE(written_before_others, 300'000U);
}

TEST_F(HttpServer, SendsFiles) {
  make();
  std::string name = testing::TempDir() + "gyre-http-file-XXXXXX";
  const gyre::unique_fd file(::mkstemp(name.data()));
  ASSERT_TRUE(file);
  const std::string text = long_text(200'000);
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  on->on_error([](const request&, std::exception_ptr) {});
  on->get("/{from}/{count}", [&](request& request) {
    return response::file("text/plain", gyre::unique_fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC)),
                          std::stoul(request.param("from")), std::stoul(request.param("count")));
  });
  on->start();
  peer client = connect();
  client.send(get("/0/200000") + get("/7/10") + "HEAD /0/9 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n" + text));
  EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n" + text.substr(7, 10)));
  EXPECT_THAT(next_response(client, true), HasSubstr("\r\nContent-Length: 9\r\n"));
  ::unlink(name.c_str());
}

gyre::unique_fd unnamed_file() {
  std::string name = testing::TempDir() + "gyre-http-file-XXXXXX";
  gyre::unique_fd file(::mkstemp(name.data()));
  ::unlink(name.c_str());
  return file;
}

TEST_F(HttpServer, AnswersAFileThatEndsTooEarlyBy500) {
  make();
  const gyre::unique_fd file = unnamed_file();
  ASSERT_TRUE(file);
  const std::string text = long_text(1000);
  ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  std::vector<std::error_code> reported;
  on->on_error([&](const request&, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::system_error& known) {
      reported.push_back(known.code());
    }
  });
  int descriptor = file.get();
  on->get("/{from}/{count}", [&](request& request) {
    return response::file("text/plain", gyre::unique_fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)),
                          std::stoull(request.param("from")), std::stoull(request.param("count")))
        .set("ETag", "\"1\"");
  });
  on->start();
  peer client = connect();
  const std::string status_line = "HTTP/1.1 500 Internal Server Error\r\n";
  const std::string whole = status_line + "Content-Length: 0\r\n\r\n";
  for (const char* path : {"/0/1001", "/1/1000", "/1001/0", "/18446744073709551615/2"}) {
    client.send(get("/0/5") + get(path) + "HEAD " + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_THAT(next_response(client), EndsWith("\r\n\r\n" + text.substr(0, 5)));
    EXPECT_EQ(next_response(client), whole) << path;
    EXPECT_EQ(next_response(client, true), status_line + "\r\n") << path;
  }
  const std::error_code ends_early = gyre::io::errc::unexpected_end;
  EXPECT_THAT(reported, testing::AllOf(testing::SizeIs(8), testing::Each(ends_early)));
  reported.clear();
  descriptor = -1;
  client.send(get("/0/1"));
  EXPECT_EQ(next_response(client), whole);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0], std::errc::bad_file_descriptor);
  client.send(get("/none"));
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 404 "));
}

// Short files are read, and go with the responses before and after them.
TEST_F(HttpServer, SendsFilesOfAnyLengthInTurn) {
  make();
  const gyre::unique_fd file = unnamed_file();
  ASSERT_TRUE(file);
  const std::string content = long_text(40'000);
  ASSERT_EQ(::write(file.get(), content.data(), content.size()), std::ssize(content));
  on->get("/{size}", [&](request& request) {
    return response::file("text/plain", gyre::unique_fd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), 7,
                          std::stoul(request.param("size")));
  });
  on->start();
  peer client = connect();
  const std::vector<std::size_t> sizes{1, 16'384, 0, 16'385, 100, 39'993, 16'384, 2};
  std::string requests;
  for (const std::size_t size : sizes) requests += get("/" + std::to_string(size));
  client.send(requests);
  for (const std::size_t size : sizes) {
    EXPECT_THAT(next_response(client), testing::EndsWith("\r\n\r\n" + content.substr(7, size)));
  }
}

TEST_F(HttpServer, CutsOffAFileThatBecomesShorterWhileItIsSent) {
  make();
  const gyre::unique_fd file = unnamed_file();
  ASSERT_TRUE(file);
  constexpr std::size_t size = std::size_t{32} << 20;
  ASSERT_EQ(::ftruncate(file.get(), size), 0);
  on->get("/", [&](request&) {
    return response::file("text/plain", gyre::unique_fd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), 0,
                          size);
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().successes == 1; });
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  EXPECT_FALSE(ends(client)) << "a part was taken for the whole";
  EXPECT_LT(client.text.size(), size);
}

// --- Upgrades ---

TEST_F(HttpServer, HandsAnUpgradedConnectionToTheProgram) {
  make();
  on->get("/", [](request& request) {
    EXPECT_EQ(request.field("Upgrade"), "echo");
    return response::upgrade("echo", [](upgraded_connection& peer) -> task<> {
      for (;;) {
        const auto bytes = co_await peer.next();
        if (!bytes) break;
        co_await peer.write(*bytes);
      }
      co_await peer.write("bye");
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/", "Connection: Upgrade\r\nUpgrade: echo\r\n") + "early");
  EXPECT_EQ(next_response(client),
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n");
  client.receive(virtual_time.loop, 5);
  EXPECT_EQ(client.text, "early");
  client.send(" more");
  client.receive(virtual_time.loop, 10);
  client.end_sending();
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "early morebye");
}

TEST_F(HttpServer, TheBodyOfARequestIsNoPartOfTheProtocolAfterAnUpgrade) {
  make();
  std::string body;
  on->post("/", [&](request& request) {
    const std::string_view whole = request.body();
    return response::upgrade("echo", [&body, whole](upgraded_connection& peer) -> task<> {
      const auto bytes = co_await peer.next();
      body = whole;
      if (bytes) co_await peer.write(*bytes);
    });
  });
  on->start();
  peer client = connect();
  client.send(post("/", "BODY", "Connection: Upgrade\r\nUpgrade: echo\r\n") + "FRAME");
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
  client.receive(virtual_time.loop, 5);
  EXPECT_EQ(client.text, "FRAME");
  EXPECT_EQ(body, "BODY");
}

task<> echo(upgraded_connection& client) {
  while (const auto bytes = co_await client.next()) co_await client.write(*bytes);
  co_await client.write("bye");
}

TEST_F(HttpServer, AnUpgradeTakesBytesThatCameWhileItsHandlerWaited) {
  make();
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    co_return response::upgrade("echo", echo);
  });
  on->start();
  peer client = connect();
  client.send(get("/", "Connection: Upgrade\r\nUpgrade: echo\r\n") + "early");
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  virtual_time.settle();
  client.send(" late");
  client.end_sending();
  virtual_time.advance(2s);
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "early latebye");
}

TEST_F(HttpServer, AnUpgradedConnectionReadsWhileItWrites) {
  make();
  on->get("/", [](request&) {
    return response::upgrade("echo", [](upgraded_connection& client) -> task<> {
      const auto reading = [&]() -> task<std::string> {
        auto bytes = co_await client.next();
        co_return std::string(gyre::io::input(bytes.value()).text());
      };
      const auto writing = [&]() -> task<> {
        co_await client.write("written");
        const auto second = co_await gyre::as_expected(client.next());
        EXPECT_FALSE(second) << "two calls of next() at once";
      };
      task<std::string> read = reading();
      task<> write = writing();
      auto [text, nothing] = co_await gyre::when_all(std::move(read), std::move(write));
      co_await client.write(text);
    });
  });
  on->start();
  peer client = connect();
  client.send(get("/", "Connection: Upgrade\r\nUpgrade: echo\r\n"));
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 101 "));
  client.receive(virtual_time.loop, 7);
  EXPECT_EQ(client.text, "written");
  client.send(" read");
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "written read");
}

TEST_F(HttpServer, AnUpgradeNeedsAClientThatAsks) {
  make();
  on->get("/", [](request&) {
    return response::upgrade("echo", [](upgraded_connection&) -> task<> { co_return; });
  });
  on->start();
  EXPECT_THAT(answer_to(get("/")), testing::AllOf(StartsWith("HTTP/1.1 426 Upgrade Required\r\n"),
                                                  HasSubstr("\r\nUpgrade: echo\r\n")));
}

// --- Hostile peers ---

TEST_F(HttpServer, RefusesMalformedRequestsAndCloses) {
  make({.limits = {.start_line = 100, .fields = 200, .field_count = 5, .body = 10}});
  on->post("/", [](request&) { return status::ok; });
  on->start();
  const std::pair<std::string, const char*> cases[] = {
      {"GET\r\n\r\n", "400"},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "400"},
      {"GET / HTTP/1.1\nHost: a\n\n", "400"},
      {get("/" + std::string(200, 'x')), "414"},
      {get("/", "X: " + std::string(300, 'x') + "\r\n"), "431"},
      {get("/", "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\n"), "431"},
      {post("/", "01234567890"), "413"},
      {get("/", "Expect: more\r\n"), "417"},
      {get("/", "Transfer-Encoding: gzip, chunked\r\n"), "501"},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
       "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", "400"},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n",
       "413"},
  };
  for (const auto& [bytes, code] : cases) {
    peer client = connect();
    client.send(bytes);
    EXPECT_THAT(next_response(client), StartsWith(std::string("HTTP/1.1 ") + code)) << bytes;
    EXPECT_TRUE(ends(client)) << bytes;
    EXPECT_EQ(client.text, "") << bytes;
  }
  EXPECT_EQ(on->metrics().malformed, std::size(cases));
}

TEST_F(HttpServer, APeerThatSendsNothingIsClosed) {
  make({.timeouts = {.first_byte = 5s}});
  on->start();
  peer client = connect();
  virtual_time.turn_until([&] { return on->metrics().tcp.connections == 1; });
  virtual_time.settle();
  virtual_time.advance(6s);
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "");
}

TEST_F(HttpServer, AHeadThatComesTooSlowlyAnswers408) {
  make({.timeouts = {.head = 10s}});
  on->start();
  peer client = connect();
  client.send("GET / HTTP/1.1\r\n");
  virtual_time.turn_until([&] { return on->metrics().tcp.traffic.bytes_received > 0; });
  for (int i = 0; i < 9; ++i) {
    virtual_time.advance(1s);
    client.send("X: y\r\n");
    virtual_time.settle();
    client.receive();
    EXPECT_EQ(client.text, "");
  }
  virtual_time.advance(2s);
  EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 408 "));
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(on->metrics().timeouts, 1u);
}

TEST_F(HttpServer, AnIdleConnectionIsClosedAndABusyOneIsNot) {
  make({.timeouts = {.idle = 60s}});
  on->get("/", [](request&) { return response::text("x"); });
  on->start();
  peer client = connect();
  for (int i = 0; i < 5; ++i) {
    client.send(get("/"));
    EXPECT_THAT(next_response(client), EndsWith("x"));
    virtual_time.advance(50s);
    virtual_time.settle();
  }
  virtual_time.advance(20s);
  EXPECT_TRUE(ends(client));
  EXPECT_EQ(client.text, "");
}

TEST_F(HttpServer, ABodyThatComesTooSlowlyAnswers408) {
  make({.timeouts = {.body = 10s, .body_rate = 10}});
  on->post("/whole", [](request&) { return status::ok; });
  on->post("/streamed", &count_streamed, {.streamed_body = true});
  on->start();
  for (const char* path : {"/whole", "/streamed"}) {
    peer client = connect();
    client.send("POST " + std::string(path) +
                " HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    virtual_time.settle();
    // Fast enough.
    for (int i = 0; i < 20; ++i) {
      client.send(std::string(10, 'x'));
      virtual_time.settle();
      virtual_time.advance(1s);
      virtual_time.settle();
    }
    client.receive();
    EXPECT_EQ(client.text, "");
    for (int i = 0; i < 20 && client.text.empty(); ++i) {
      client.send("x");
      virtual_time.settle();
      virtual_time.advance(1s);
      virtual_time.settle();
      client.receive();
    }
    EXPECT_THAT(next_response(client), StartsWith("HTTP/1.1 408 ")) << path;
    EXPECT_TRUE(ends(client));
  }
}

TEST_F(HttpServer, PipelinedRequestsOfAPeerThatDoesNotReadWait) {
  make({.tcp = {.connections = {.high_water = 100'000}}});
  const std::string body(10'000, 'x');
  std::size_t answered = 0;
  on->get("/", [&](request&) {
    ++answered;
    return response::borrowed("text/plain", body);
  });
  on->start();
  peer client(on->local_endpoint(), 4096);
  std::string all;
  for (int i = 0; i < 3000; ++i) all += get("/");
  client.send(all);
  virtual_time.turn_until([&] {
    const std::size_t before = answered;
    for (int i = 0; i < 20; ++i) virtual_time.settle();
    return answered != 0 && answered == before;
  });
  EXPECT_LT(answered, 3000u);
  std::size_t received = 0;
  virtual_time.turn_until([&] {
    client.receive();
    while (take_response(client.text)) ++received;
    return received == 3000;
  });
}

// --- Stopping ---

TEST_F(HttpServer, AStopAnswersWhatHasComeAndClosesTheRest) {
  make();
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(1s);
    co_return response::text("x");
  });
  on->start();
  peer idle = connect();
  peer busy = connect();
  busy.send(get("/") + get("/"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  virtual_time.turn_until([&] { return on->metrics().tcp.connections == 2; });
  bool done = false;
  on->stop(10s, [&] { done = true; });
  virtual_time.settle();
  EXPECT_FALSE(done);
  virtual_time.advance(2s);
  EXPECT_TRUE(ends(idle));
  idle.close();
  EXPECT_THAT(next_response(busy), HasSubstr("\r\nConnection: close\r\n"));
  EXPECT_TRUE(ends(busy));
  EXPECT_EQ(busy.text, "");
  busy.close();
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServer, AStopDoesNotAwaitTheEndOfIdlePeers) {
  make();
  on->get("/", [](request&) { return response::text("x"); });
  on->start();
  peer idle = connect();
  idle.send(get("/"));
  EXPECT_THAT(next_response(idle), EndsWith("x"));
  bool done = false;
  on->stop(1h, [&] { done = true; });
  EXPECT_TRUE(ends(idle));
  virtual_time.advance(1s);
  virtual_time.turn_until([&] { return done; });
}

TEST_F(HttpServer, AStopEndsHandlersAtItsDeadline) {
  make();
  on->get("/", [](request&) -> task<response> {
    co_await gyre::sleep_for(1h);
    co_return response::text("x");
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  bool done = false;
  on->stop(5s, [&] { done = true; });
  bool again = false;
  on->stop(7s, [&] { again = true; });
  virtual_time.settle();
  EXPECT_FALSE(done);
  virtual_time.advance(6s);
  virtual_time.turn_until([&] { return done && again; });
  EXPECT_EQ(on->metrics().active, 0u);
}

TEST_F(HttpServer, IsDestroyedWhileHandlersRun) {
  make();
  bool ended = false;
  struct at_end {
    bool* flag;
    ~at_end() { *flag = true; }
  };
  on->get("/", [&](request&) -> task<response> {
    const at_end guard{&ended};
    co_await gyre::sleep_for(1h);
    co_return response::text("x");
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  on.reset();
  virtual_time.turn_until([&] { return ended; });
  virtual_time.settle();
}

TEST_F(HttpServer, IsDestroyedByItsHandler) {
  make();
  on->get("/", [&](request&) {
    on.reset();
    return response::text("x");
  });
  on->start();
  peer client = connect();
  client.send(get("/"));
  virtual_time.turn_until([&] {
    client.receive();
    return client.ended;
  });
}

// --- Answers to other connections within a turn ---

TEST_F(HttpServer, AHandlerThatResumesAnotherKeepsTheirAnswersApart) {
  make();
  gyre::manual_reset_event go;
  on->get("/wait", [&](request&) -> task<response> {
    co_await go.wait();
    co_return response::text("waited");
  });
  on->get("/go", [&](request&) {
    go.set();
    return response::text("went");
  });
  on->start();
  peer waits = connect();
  waits.send(get("/wait"));
  virtual_time.turn_until([&] { return on->metrics().active == 1; });
  peer goes = connect();
  goes.send(get("/none") + get("/go") + get("/none"));
  EXPECT_THAT(next_response(waits), EndsWith("\r\n\r\nwaited"));
  EXPECT_THAT(next_response(goes), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(next_response(goes), EndsWith("\r\n\r\nwent"));
  EXPECT_THAT(next_response(goes), StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(waits.text + goes.text, "");
}

TEST_F(HttpServer, LogsAccess) {
  make();
  std::string line;
  on->on_access(
      [&](const gyre::http::access_record& record) { line = gyre::http::to_combined_log(record); });
  on->get("/", [](request&) { return response::text("four"); });
  on->start();
  answer_to(get("/?q=1", "User-Agent: \"me\"\xff\r\nReferer: r\r\n"));
  EXPECT_THAT(line, StartsWith("127.0.0.1 - - ["));
  EXPECT_THAT(line, EndsWith("] \"GET /?q=1 HTTP/1.1\" 200 4 \"r\" \"\\\"me\\\"?\""));
}

// --- Several loops ---

TEST(HttpServerOnLoops, ServesOnSeveralLoops) {
  gyre::loop_pool loops(2);
  server on(loops, any_port(), {.tcp = {.strategy = gyre::net::accept_strategy::round_robin}});
  on.post("/", [](request& request) -> task<response> {
    co_await gyre::sleep_for(1ms);
    co_return response::text(std::string(request.body()));
  });
  on.start();
  gyre::loop here;
  std::vector<std::unique_ptr<peer>> clients;
  for (int i = 0; i < 16; ++i) clients.push_back(std::make_unique<peer>(on.local_endpoint()));
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      clients[i]->send(post("/", std::to_string(i)) + post("/", "x" + std::to_string(i)));
    }
    for (std::size_t i = 0; i < clients.size(); ++i) {
      for (const char* prefix : {"", "x"}) {
        std::optional<std::string> answer;
        turn_until(here, [&] {
          clients[i]->receive();
          answer = take_response(clients[i]->text);
          return answer.has_value();
        });
        EXPECT_THAT(*answer, EndsWith("\r\n\r\n" + std::string(prefix) + std::to_string(i)));
      }
    }
  }
  gyre::sync_wait(on.stop_async(0s));
  EXPECT_EQ(on.metrics().requests, 320u);
}

}  // namespace
}  // namespace http_server_test
