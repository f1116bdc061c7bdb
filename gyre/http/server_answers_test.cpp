// SPDX-License-Identifier: Apache-2.0
// Tests of what a server says of an answer and its connection, and when it decides to answer.
#include <gyre/http/server.hpp>

#include <gyre/http/server_test_support.hpp>
#include <gyre/task/sleep.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace http_server_answers_test {
namespace {

using namespace gyre::http::test;
using namespace std::chrono_literals;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::request;
using gyre::http::response;
using gyre::http::server_options;
using gyre::http::status;
using gyre::http::upgraded_connection;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpServerAnswers : public server_fixture {
 protected:
  void make(server_options options = {}) {
    server_fixture::make(std::move(options));
    on->on_error([this](const request&, const std::exception_ptr& error) {
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& known) {
        errors += std::string(known.what()) + '\n';
      }
    });
  }
  std::string answer_to_head(std::string_view path) {
    peer client = connect();
    client.send("HEAD " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n");
    return next_response(client, true);
  }

  std::string errors;
};

// --- Protocols and connection options ---

response echo() {
  return response::upgrade("echo", [](upgraded_connection&) -> task<> { co_return; });
}

TEST_F(HttpServerAnswers, SwitchesOnlyToAProtocolThatTheClientOffers) {
  make();
  on->get("/", [](request&) { return echo(); });
  on->start();
  const auto answer_to_offer = [this](std::string_view fields) {
    return answer_to(get("/", fields));
  };
  for (const char* offered :
       {"Connection: Upgrade\r\nUpgrade: echo\r\n", "Connection: upgrade\r\nUpgrade: ECHO\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, echo/1 ,echo\r\n",
        "Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: echo\r\n"}) {
    EXPECT_EQ(answer_to_offer(offered),
              "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
        << offered;
  }
  for (const char* other :
       {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
        "Connection: upgrade\r\nUpgrade: echo/2\r\n", "Connection: upgrade\r\nUpgrade: echoes\r\n",
        "Upgrade: echo\r\n", "Connection: upgrade\r\nUpgrade: \r\n", ""}) {
    EXPECT_EQ(answer_to_offer(other),
              "HTTP/1.1 426 Upgrade Required\r\nUpgrade: echo\r\nContent-Length: 0\r\n"
              "Connection: upgrade\r\n\r\n")
        << other;
  }
  EXPECT_EQ(errors, "");
}

TEST_F(HttpServerAnswers, SeveralProtocolsMustAllBeOffered) {
  make();
  on->get("/", [](request&) {
    return response::upgrade("outer, inner", [](upgraded_connection&) -> task<> { co_return; });
  });
  on->start();
  EXPECT_THAT(answer_to(get("/", "Connection: upgrade\r\nUpgrade: inner\r\n")),
              StartsWith("HTTP/1.1 426 "));
  EXPECT_THAT(answer_to(get("/", "Connection: upgrade\r\nUpgrade: inner, outer\r\n")),
              StartsWith("HTTP/1.1 101 "));
}

TEST_F(HttpServerAnswers, AClientThatOffersToUpgradeIsAnsweredWithoutIt) {
  make();
  on->get("/", [](request&) { return response::text("x"); });
  on->start();
  peer client = connect();
  for (int i = 0; i < 2; ++i) {
    client.send(get("/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"));
    EXPECT_THAT(next_response(client),
                AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("Content-Length: 1\r\n\r\nx")));
  }
}

TEST_F(HttpServerAnswers, AnAnswerWithUpgradeHasTheConnectionOption) {
  make();
  on->get("/offers", [](request&) { return response(status::ok).set("Upgrade", "h2c"); });
  on->get("/closes", [](request&) {
    return response(status::ok).set("Connection", "close").set("Upgrade", "h2c");
  });
  on->get("/says", [](request&) {
    return response(status::ok)
        .set("Connection", "X-Hop , Upgrade, keep-alive, Content-Length, no token,")
        .add("Connection", "X-Other")
        .set("X-Hop", "1");
  });
  on->start();
  EXPECT_EQ(answer_to(get("/offers")),
            "HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nContent-Length: 0\r\nConnection: upgrade\r\n\r\n");
  EXPECT_THAT(answer_to(get("/closes")), HasSubstr("\r\nConnection: upgrade, close\r\n\r\n"));
  EXPECT_EQ(answer_to(get("/says")),
            "HTTP/1.1 200 OK\r\nX-Hop: 1\r\nContent-Length: 0\r\n"
            "Connection: X-Hop,X-Other, upgrade\r\n\r\n");
  EXPECT_THAT(answer_to("GET /says HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
              HasSubstr("\r\nConnection: X-Hop,X-Other, upgrade, keep-alive\r\n\r\n"));
}

TEST_F(HttpServerAnswers, ManyConnectionOptionsFit) {
  make();
  std::string many = "a";
  for (int i = 0; i < 5000; ++i) many += ",a";
  on->get("/", [&](request&) {
    return response(status::ok).set("Connection", many + ",close").set("Upgrade", "h2c");
  });
  on->start();
  EXPECT_THAT(answer_to(get("/")),
              HasSubstr("\r\nConnection: " + many + ", upgrade, close\r\n\r\n"));
}

TEST_F(HttpServerAnswers, OnlyAnUpgradeSwitchesProtocols) {
  make();
  on->get("/bare", [](request&) { return response(status::switching_protocols); });
  on->get("/changed", [](request&) {
    response answer = echo();
    answer.set_status(status::ok);
    return answer;
  });
  on->start();
  const std::string_view offer = "Connection: upgrade\r\nUpgrade: echo\r\n";
  for (const char* path : {"/bare", "/changed"}) {
    EXPECT_THAT(answer_to(get(path, offer)), StartsWith("HTTP/1.1 500 "));
    EXPECT_THAT(errors, HasSubstr("below 200"));
    errors.clear();
  }
}

// --- The framing ---

TEST_F(HttpServerAnswers, ResetContentHasNoContent) {
  make();
  on->get("/text", [](request&) { return response::text("dropped", status::reset_content); });
  on->get("/stream", [](request&) {
    response answer = response::stream(
        "text/plain", [](body_writer& writer) -> task<> { co_await writer.write("dropped"); });
    answer.set_status(status::reset_content);
    return answer;
  });
  on->start();
  peer client = connect();
  for (const char* path : {"/text", "/stream"}) {
    client.send(get(path));
    EXPECT_THAT(next_response(client), AllOf(StartsWith("HTTP/1.1 205 Reset Content\r\n"),
                                             EndsWith("\r\nContent-Length: 0\r\n\r\n")));
  }
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(next_response(client),
              EndsWith("\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST_F(HttpServerAnswers, StreamsABodyOfKnownLength) {
  make();
  on->get("/", [](request&) {
    return response::stream("text/plain", 10, [](body_writer& writer) -> task<> {
      co_await writer.write("12345");
      co_await writer.write("67890");
      writer.add_trailer("Ignored", "x");
    });
  });
  on->start();
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n";
  peer client = connect();
  client.send(get("/") + get("/"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next_response(client), head + "\r\n1234567890");
  // HTTP/1.0 knows no chunks, and its connection lives now, too.
  for (int i = 0; i < 2; ++i) {
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(next_response(client), head + "Connection: keep-alive\r\n\r\n1234567890");
  }
  EXPECT_EQ(answer_to_head("/"), head + "\r\n");
  EXPECT_EQ(errors, "");
}

TEST_F(HttpServerAnswers, AStreamThatMissesItsLengthIsCutOff) {
  make();
  on->get("/short", [](request&) {
    return response::stream("text/plain", 10,
                            [](body_writer& writer) -> task<> { co_await writer.write("123"); });
  });
  std::string refused;
  on->get("/long", [&refused](request&) {
    return response::stream("text/plain", 4, [&refused](body_writer& writer) -> task<> {
      co_await writer.write("123");
      try {
        co_await writer.write("456");
      } catch (const std::length_error& error) {
        refused = error.what();
        throw;
      }
    });
  });
  on->start();
  for (const char* path : {"/short", "/long"}) {
    peer client = connect();
    client.send(get(path));
    EXPECT_FALSE(ends(client)) << "a part was taken for the whole";
    EXPECT_THAT(client.text, Not(HasSubstr("456")));
  }
  EXPECT_THAT(errors, HasSubstr("the body ended 7 bytes before its length"));
  EXPECT_THAT(errors, EndsWith(refused + '\n'));
  EXPECT_THAT(refused, HasSubstr("more than the length"));
}

TEST_F(HttpServerAnswers, AHandlerOfHeadMayKnowTheLength) {
  make();
  const auto add = [this](const char* path, const char* length) {
    on->route(gyre::http::method::head, path,
              [length](request&) { return response(status::ok).set("Content-Length", length); });
  };
  add("/known", "1234567890123");
  add("/malformed", "12x");
  on->get("/get", [](request&) { return response::text("1").set("Content-Length", "9"); });
  on->start();
  EXPECT_EQ(answer_to_head("/known"), "HTTP/1.1 200 OK\r\nContent-Length: 1234567890123\r\n\r\n");
  EXPECT_EQ(answer_to_head("/malformed"), "HTTP/1.1 200 OK\r\n\r\n");
  EXPECT_THAT(answer_to_head("/get"), EndsWith("\r\nContent-Length: 1\r\n\r\n"));
  EXPECT_THAT(answer_to(get("/get")), EndsWith("\r\nContent-Length: 1\r\n\r\n1"));
}

TEST_F(HttpServerAnswers, AHandlerOfHeadNeedNotKnowTheLength) {
  make();
  on->route(gyre::http::method::head, "/a", [](request&) { return status::ok; });
  on->get("/a", [](request&) { return response::text("12345"); });
  on->get("/empty", [](request&) { return status::ok; });
  on->start();
  EXPECT_EQ(answer_to_head("/a"), "HTTP/1.1 200 OK\r\n\r\n") << "a length of 0 would be wrong";
  EXPECT_THAT(answer_to(get("/a")), EndsWith("\r\nContent-Length: 5\r\n\r\n12345"));
  EXPECT_EQ(answer_to(get("/empty")), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
}

// --- Answers before the body ---

TEST_F(HttpServerAnswers, RefusesAPathAndAMethodBeforeTheBody) {
  make({.limits = {.body = 10}});
  on->put("/a", [](request&) { return status::ok; });
  on->start();
  const auto refuse = [this](std::string_view path, std::string_view more) {
    peer client = connect();
    client.send("POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n" + std::string(more) +
                "\r\n");
    const std::string answer = next_response(client);
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_TRUE(ends(client));
    EXPECT_EQ(client.text, "") << "no 100 behind it";
    return answer;
  };
  for (const char* body :
       {"Content-Length: 11\r\nExpect: 100-continue\r\n", "Content-Length: 11\r\n",
        "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
        "Transfer-Encoding: chunked\r\n"}) {
    EXPECT_THAT(refuse("/", body), StartsWith("HTTP/1.1 404 ")) << body;
    EXPECT_THAT(refuse("/a", body), StartsWith("HTTP/1.1 405 ")) << body;
  }
}

TEST_F(HttpServerAnswers, MiddlewareGetsTheBodyWhateverThePath) {
  make();
  on->use([](request& request, gyre::http::next_handler) -> task<response> {
    co_return response::text("got " + std::string(request.body()));
  });
  on->put("/a", [](request&) { return status::ok; });
  on->start();
  for (const char* path : {"/", "/a"}) {
    peer client = connect();
    client.send("POST " + std::string(path) +
                " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
    EXPECT_THAT(next_response(client), EndsWith("got body")) << path;
  }
}

TEST_F(HttpServerAnswers, RefusingABodyThatHasComeKeepsTheConnection) {
  make();
  on->put("/a", [](request&) { return status::ok; });
  on->post("/unread", [](request&) { return status::accepted; }, {.streamed_body = true});
  on->start();
  peer client = connect();
  for (const auto& [path, start] :
       {std::pair("/", "HTTP/1.1 404 "), {"/a", "HTTP/1.1 405 "}, {"/unread", "HTTP/1.1 202 "}}) {
    client.send(post(path, "body"));
    EXPECT_THAT(next_response(client), StartsWith(start));
    client.send("POST " + std::string(path) +
                " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n");
    EXPECT_THAT(next_response(client), StartsWith(start));
  }
}

TEST_F(HttpServerAnswers, AMalformedBodyIsRefusedEvenIfNobodyReadsIt) {
  make();
  on->start();
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
              StartsWith("HTTP/1.1 400 "));
}

}  // namespace
}  // namespace http_server_answers_test
