// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP client against servers that break the rules, and against gyre's own server.
#include <gyre/http/client.hpp>
#include <gyre/http/server.hpp>
#include <gyre/task/sleep.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http_client_hostile_test {
namespace {

using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::request;
using gyre::http::request_body_writer;
using gyre::http::response;
using gyre::http::status;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::net::test::any_port;
using gyre::net::test::long_text;
using gyre::net::test::peer;
using testing::HasSubstr;

class HttpClientHostile : public gyre::http::test::http_client_test {
 protected:
  // Sends `piece` again and again until the request has ended.
  running_request& flood_get(std::string_view first, std::string_view piece) {
    running_request& sending = get();
    peer& at = accept();
    receive_head(at);
    at.send(first);
    std::size_t sent = 0;
    while (!sending.done() && sent < (std::size_t{256} << 20)) {
      const ssize_t count = ::send(at.fd(), piece.data(), piece.size(), MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
      virtual_time.settle();
    }
    EXPECT_LT(sent, std::size_t{64} << 20);
    return finish(sending);
  }
};

TEST_F(HttpClientHostile, MalformedHeadsAreErrors) {
  make();
  struct example {
    std::string_view head;
    errc error;
  };
  for (const example& each : std::initializer_list<example>{
           {"SSH-2.0-OpenSSH_9.2\r\n\r\n", errc::bad_start_line},
           {"HTTP/2.0 200 OK\r\n\r\n", errc::unsupported_version},
           {"HTTP/1.1 99 Low\r\n\r\n", errc::bad_start_line},
           {"HTTP/1.1 20\r\n\r\n", errc::bad_start_line},
           {"HTTP/1.1 200 OK\nContent-Length: 0\n\n", errc::bare_line_end},
           {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", errc::bad_field},
           {"HTTP/1.1 200 OK\r\n c\r\nA: b\r\n\r\n", errc::bad_field},
           {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", errc::bad_length},
           {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errc::bad_length},
           {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            errc::ambiguous_length},
           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            errc::unknown_transfer_coding},
           {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            errc::unexpected_status}}) {
    EXPECT_EQ(answer_get(each.head).error(), each.error) << each.head;
  }
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientHostile, HeadsWithSmallFaultsAreRead) {
  make();
  const client_response& folded =
      answer_get("HTTP/1.2 200\r\nA: b\r\n\tc\r\nContent-Length: 2\r\n\r\nok").response();
  EXPECT_EQ(folded.reason(), "");
  EXPECT_EQ(folded.minor_version(), 1U);
  EXPECT_EQ(folded.field("A"), "b  \tc");
  EXPECT_EQ(folded.body(), "ok");
  const client_response& invalid =
      answer_get("HTTP/1.1 799 Odd\r\nContent-Length: 0\r\n\r\n").response();
  EXPECT_TRUE(is_server_error(invalid.status()));
}

// RFC 9112, 6.3, rule 1.
TEST_F(HttpClientHostile, FramingOfAResponseWithoutABodyIsNotJudged) {
  make();
  for (const auto& [bytes, is_kept] : std::initializer_list<std::pair<std::string_view, bool>>{
           {"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", true},
           {"HTTP/1.1 204 No\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", false},
           {"HTTP/1.1 304 No\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", false},
           {"HTTP/1.1 103 Early\r\nContent-Length: x\r\n\r\nHTTP/1.1 204 No\r\n\r\n", true}}) {
    running_request& request = get();
    peer& at = accept();
    receive_head(at);
    at.send(bytes);
    EXPECT_TRUE(finish(request).has_response()) << bytes;
    EXPECT_EQ(client->metrics().idle, is_kept ? 1u : 0u) << bytes;
    client.reset();
    make();
  }
}

TEST_F(HttpClientHostile, MalformedChunksAreErrors) {
  make();
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string_view body :
       {"x\r\n", "-1\r\n", "1\r\nab\r\n", "1 \r\na\r\n", "ffffffffffffffffff\r\n",
        "1;\x01\r\na\r\n", "0\r\nA : b\r\n\r\n"}) {
    const running_request& request = answer_get(head + std::string(body));
    EXPECT_EQ(&request.error().category(), &gyre::http::http_category()) << body;
    EXPECT_NE(request.error(), errc::truncated) << body;
  }
}

TEST_F(HttpClientHostile, AHeadWithoutEndIsRefused) {
  make();
  const std::string field = "A: " + std::string(1000, 'x') + "\r\n";
  EXPECT_EQ(flood_get("HTTP/1.1 200 OK\r\n", field).error(), errc::fields_too_large);
  EXPECT_EQ(flood_get("HTTP/1.1 200 OK\r\n", "A: b\r\n").error(), errc::fields_too_large);
  EXPECT_EQ(flood_get("HTTP/1.1 200 ", "xxxxxxxxxxxxxxxxxxxxxxx").error(), errc::target_too_long);
}

TEST_F(HttpClientHostile, InterimResponsesWithoutEndAreRefused) {
  make();
  EXPECT_EQ(flood_get("", "HTTP/1.1 103 Early Hints\r\n\r\n").error(), errc::unexpected_status);
}

TEST_F(HttpClientHostile, ABodyAboveTheLimitIsRefused) {
  client_options options;
  options.limits.body = 1 << 20;
  make(std::move(options));
  const std::string piece(100'000, 'x');
  EXPECT_EQ(flood_get("HTTP/1.1 200 OK\r\n\r\n", piece).error(), errc::body_too_large);
  EXPECT_EQ(flood_get("HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n", "").error(),
            errc::body_too_large);
  const std::string chunk = "186a0\r\n" + piece + "\r\n";
  EXPECT_EQ(flood_get("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk).error(),
            errc::body_too_large);
}

TEST_F(HttpClientHostile, TrailersWithoutEndAreRefused) {
  make();
  EXPECT_EQ(
      flood_get("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n").error(),
      errc::fields_too_large);
}

TEST_F(HttpClientHostile, AConnectionThatEndsAtAnyByteIsTold) {
  make();
  for (const std::string_view whole :
       {std::string_view(
            "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        std::string_view("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "3\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n")}) {
    for (std::size_t size = 0; size != whole.size(); ++size) {
      const running_request& request = answer_get(whole.substr(0, size));
      EXPECT_EQ(request.error(), size == 0 ? errc::no_response : errc::truncated) << size;
    }
    EXPECT_EQ(client->metrics().open, 0u);
    EXPECT_EQ(answer_get(whole).response().body().size(), 5u);
    client.reset();
    make();
  }
}

TEST_F(HttpClientHostile, AResponseMayComeByteByByte) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  for (const char each : std::string_view("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n"
                                          "Transfer-Encoding: chunked\r\n\r\n"
                                          "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n")) {
    at.send(std::string_view(&each, 1));
    virtual_time.settle();
  }
  EXPECT_EQ(finish(request).response().body(), "abcde");
  EXPECT_EQ(request.response().trailers().get("a"), "b");
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientHostile, AResetIsTold) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  virtual_time.settle();
  at.reset();
  EXPECT_EQ(finish(request).error(), std::errc::connection_reset);
  EXPECT_THAT(request.message(), HasSubstr(server.url()));
}

TEST_F(HttpClientHostile, AResponseThatNobodyAskedForIsNotUsed) {
  make();
  running_request& first = get("/1");
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  finish(first);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
  virtual_time.settle();
  running_request& second = get("/2");
  peer& next = accept();
  receive_head(next);
  next.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
}

TEST_F(HttpClientHostile, AResponseBeforeTheRequestIsNoHarm) {
  make();
  running_request& request = get();
  peer& at = accept();
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

// --- Against gyre's own server ---

class HttpClientAndServer : public HttpClientHostile {
 protected:
  HttpClientAndServer() : real(virtual_time.loop, any_port()) {
    real.get("/hello", [](request&) { return response::text("hello"); });
    real.post("/echo",
              [](request& request) { return response::text(std::string(request.body())); });
    real.post("/count", sum, {.streamed_body = true});
    real.get("/stream", [](request&) {
      return response::stream("text/plain", [](gyre::http::body_writer& writer) -> task<> {
        for (int count = 0; count != 3; ++count) {
          auto writing = writer.write("part ");
          co_await std::move(writing);
        }
        writer.add_trailer("X-Parts", "3");
      });
    });
    real.get("/moved", [](request&) { return response::redirect("/hello"); });
    real.get("/close", [](request&) { return response::text("bye").set("Connection", "close"); });
    real.start();
    make({.connections_per_host = 4});
  }
  static task<response> sum(request& request) {
    std::size_t count = 0;
    for (;;) {
      auto reading = request.next_chunk();
      const auto chunk = co_await std::move(reading);
      if (!chunk) break;
      count += chunk->size();
    }
    co_return response::text(std::to_string(count));
  }
  std::string at(std::string_view path) {
    return "http://" + real.local_endpoint().to_string() + std::string(path);
  }
  std::string body_of(client_request request) {
    return std::string(finish(send(std::move(request))).response().body());
  }

  gyre::http::server real;
};

TEST_F(HttpClientAndServer, UnderstandEachOther) {
  EXPECT_EQ(body_of({method::get, at("/hello")}), "hello");
  EXPECT_EQ(body_of({method::get, at("/stream")}), "part part part ");
  EXPECT_EQ(running.back().response().trailers().get("X-Parts"), "3");
  EXPECT_EQ(body_of({method::get, at("/moved")}), "hello");
  EXPECT_EQ(body_of({method::head, at("/hello")}), "");
  EXPECT_EQ(body_of({method::get, at("/close")}), "bye");
  EXPECT_EQ(finish(send({method::get, at("/none")})).response().status(), status::not_found);
  const std::string text = long_text(1'000'000);
  client_request echo(method::post, at("/echo"));
  echo.set_body("text/plain", text).expect_continue();
  EXPECT_EQ(body_of(std::move(echo)), text);
  client_request streamed(method::post, at("/count"));
  streamed.set_stream("text/plain", [&text](request_body_writer& writer) -> task<> {
    for (int count = 0; count != 5; ++count) {
      auto writing = writer.write(text);
      co_await std::move(writing);
    }
  });
  EXPECT_EQ(body_of(std::move(streamed)), "5000000");
  EXPECT_EQ(client->metrics().retries, 0u);
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClientAndServer, ManyRequestsShareFewConnections) {
  std::vector<running_request*> sent;
  for (int count = 0; count != 100; ++count) {
    sent.push_back(&send({method::get, at("/hello")}));
  }
  for (running_request* const each : sent) EXPECT_EQ(finish(*each).response().body(), "hello");
  EXPECT_EQ(client->metrics().open, 4u);
}

TEST_F(HttpClientAndServer, TheServerRefusesABodyThatIsTooLarge) {
  client_request large(method::post, at("/echo"));
  large.set_body("text/plain", std::string(32 << 20, 'x'));
  EXPECT_EQ(finish(send(std::move(large))).response().status(), status::content_too_large);
}

}  // namespace
}  // namespace http_client_hostile_test
