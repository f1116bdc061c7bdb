// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/client.hpp>

#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/server.hpp>
#include <gyre/io/error.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <expected>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace http_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::request_body_writer;
using gyre::http::status;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::net::test::peer;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpClient : public gyre::http::test::http_client_test {};

// --- Requests and responses ---

TEST_F(HttpClient, SendsAGetAndGivesTheResponse) {
  make();
  running_request& request = get("/a?b=c");
  peer& at = accept();
  EXPECT_EQ(receive_head(at), "GET /a?b=c HTTP/1.1\r\nHost: " + server.authority() +
                                  "\r\nUser-Agent: gyre\r\nAccept: */*\r\n"
                                  "Accept-Encoding: br, zstd, gzip\r\n\r\n");
  at.send("HTTP/1.1 201 Made It\r\nContent-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhello");
  const client_response& response = finish(request).response();
  EXPECT_EQ(response.status(), status::created);
  EXPECT_TRUE(response.is_success());
  EXPECT_EQ(response.reason(), "Made It");
  EXPECT_EQ(response.minor_version(), 1u);
  EXPECT_EQ(response.field("X-a"), "1");
  EXPECT_EQ(response.fields().size(), 3u);
  EXPECT_EQ(response.body(), "hello");
  EXPECT_EQ(response.content_length(), 5u);
  EXPECT_EQ(response.url().to_string(), server.url("/a?b=c"));
}

TEST_F(HttpClient, EveryStatusIsAResult) {
  make();
  EXPECT_EQ(answer_get("HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n").response().status(),
            status::internal_server_error);
}

TEST_F(HttpClient, SendsABodyWithItsLength) {
  make();
  running_request& request = start(client->post(server.url(), "text/plain", "hello"));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), AllOf(StartsWith("POST / HTTP/1.1\r\n"),
                                      HasSubstr("\r\nContent-Type: text/plain\r\n"),
                                      HasSubstr("\r\nContent-Length: 5\r\n")));
  EXPECT_EQ(receive_until(at, "hello"), "hello");
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

TEST_F(HttpClient, APostWithoutABodySaysSo) {
  make();
  send(client_request(method::post, server.url()));
  EXPECT_THAT(receive_head(accept()), HasSubstr("\r\nContent-Length: 0\r\n"));
}

TEST_F(HttpClient, TheFramingOfARequestIsTheClients) {
  make();
  client_request request(method::put, server.url());
  request.set("Content-Length", "7").set("Transfer-Encoding", "chunked").set("Upgrade", "h2c");
  request.set("Host", "other").set("User-Agent", "me").set_body("", "abc");
  send(std::move(request));
  const std::string head = receive_head(accept());
  EXPECT_THAT(head, AllOf(HasSubstr("\r\nHost: other\r\n"), HasSubstr("\r\nUser-Agent: me\r\n"),
                          HasSubstr("\r\nContent-Length: 3\r\n")));
  EXPECT_THAT(head, AllOf(Not(HasSubstr("Upgrade")), Not(HasSubstr("chunked")),
                          Not(HasSubstr(": 7")), Not(HasSubstr("gyre"))));
}

TEST_F(HttpClient, AMethodMayHaveAnyName) {
  make();
  send(client_request("PROPFIND", server.url()));
  EXPECT_THAT(receive_head(accept()), StartsWith("PROPFIND / HTTP/1.1\r\n"));
  EXPECT_THROW(client_request("A B", server.url()), std::invalid_argument);
  EXPECT_THROW(client_request("", server.url()), std::invalid_argument);
  EXPECT_THROW(client_request("CONNECT", server.url()), std::invalid_argument);
}

TEST_F(HttpClient, RefusesWhatWouldSplitARequest) {
  client_request request(method::get, server.url());
  EXPECT_THROW(request.set("X", "a\r\nY: b"), std::invalid_argument);
  EXPECT_THROW(request.set("X\r\n", "a"), std::invalid_argument);
  EXPECT_THROW(request.set_body("a\nb", ""), std::invalid_argument);
  EXPECT_THROW(client_request(method::get, "http://a/\r\nX:"), std::system_error);
  EXPECT_THROW(client_request("GET / HTTP/1.1\r\n", "http://a/"), std::invalid_argument);
}

TEST_F(HttpClient, RefusesUrlsWithoutShowingTheirPassword) {
  try {
    const client_request request(method::get, "http://me:secret@ /");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("secret")));
  }
  try {
    const client_request request(method::get, "ftp://a/");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::unsupported_scheme);
  }
}

TEST_F(HttpClient, TheUserOfAUrlIsSentAsBasicCredentials) {
  make();
  send(client_request(method::get, "http://Aladdin:open%20sesame@" + server.authority() + "/"));
  EXPECT_THAT(receive_head(accept()),
              HasSubstr("\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"));
}

TEST_F(HttpClient, AHeadHasNoBody) {
  make();
  running_request& request = send(client_request(method::head, server.url()));
  peer& at = accept();
  receive_head(at);
  at.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Encoding: gzip\r\n\r\n");
  EXPECT_EQ(finish(request).response().body(), "");
  EXPECT_EQ(request.response().field("Content-Length"), "1000");
  EXPECT_EQ(client->metrics().idle, 1u);
}

TEST_F(HttpClient, NoContentAndNotModifiedHaveNoBody) {
  make();
  for (const std::string_view head : {"HTTP/1.1 204 No Content\r\n\r\n",
                                      "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"}) {
    EXPECT_EQ(answer_get(head).response().body(), "");
  }
}

TEST_F(HttpClient, InterimResponsesAreSkipped) {
  make();
  EXPECT_EQ(
      answer_get("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" +
                 std::string(ok))
          .response()
          .body(),
      "ok");
}

TEST_F(HttpClient, AResponseOfHttp10LastsUntilTheConnectionEnds) {
  make();
  const client_response& response = answer_get("HTTP/1.0 200 OK\r\n\r\nall of it").response();
  EXPECT_EQ(response.body(), "all of it");
  EXPECT_EQ(response.minor_version(), 0u);
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClient, AChunkedBodyHasTrailers) {
  make();
  const client_response& response =
      answer_get(
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-Sum: 1\r\nX-Other: 22\r\n\r\n")
          .response();
  EXPECT_EQ(response.body(), "abcdefg");
  EXPECT_EQ(response.trailers().get("x-sum"), "1");
  EXPECT_EQ(response.trailers().get("X-Other"), "22");
}

TEST_F(HttpClient, GetAloneNeedsNoClient) {
  running_request& request = start(gyre::http::get(server.url("/alone")));
  peer& at = accept();
  EXPECT_THAT(receive_head(at), StartsWith("GET /alone "));
  at.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  EXPECT_TRUE(ends(at));
}

// --- Connections that are kept ---

TEST_F(HttpClient, AServerLimitsTheTimeOfAnIdleConnection) {
  struct example {
    std::string_view fields;
    std::chrono::seconds kept;  // and closed a second later
  };
  for (const example& each : std::initializer_list<example>{
           {"Keep-Alive: timeout=5\r\n", 3s},
           {"keep-alive: max=100 ,, TIMEOUT = 5\r\n", 3s},
           {"Keep-Alive: timeout=20\r\nKeep-Alive: timeout=5\r\n", 3s},
           {"Keep-Alive: timeout=100\r\n", 29s},
           {"Keep-Alive: timeout=x, timeout=, timeout=-1, timeout, max\r\n", 29s}}) {
    make();
    running_request& request = get();
    peer& at = accept();
    receive_head(at);
    at.send("HTTP/1.1 204 No\r\n" + std::string(each.fields) + "\r\n");
    finish(request);
    virtual_time.settle();
    virtual_time.advance(each.kept);
    virtual_time.settle();
    EXPECT_EQ(client->metrics().idle, 1u) << each.fields;
    virtual_time.advance(1s);
    EXPECT_TRUE(ends(at)) << each.fields;
    EXPECT_EQ(client->metrics().open, 0u);
    client.reset();
  }
}

TEST_F(HttpClient, AConnectionThatItsServerClosesAtOnceIsNotKept) {
  make();
  for (const std::string_view field : {"Keep-Alive: timeout=0\r\n", "Keep-Alive: timeout=1\r\n"}) {
    running_request& request = get();
    peer& at = accept();
    receive_head(at);
    at.send("HTTP/1.1 204 No\r\n" + std::string(field) + "\r\n");
    finish(request);
    EXPECT_EQ(client->metrics().open, 0u);
  }
}

TEST_F(HttpClient, KeepsAConnectionForTheNextRequest) {
  make();
  running_request& first = get("/1");
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  finish(first);
  EXPECT_EQ(client->metrics().idle, 1u);
  running_request& second = get("/2");
  EXPECT_THAT(receive_head(at), StartsWith("GET /2 "));
  at.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n");
  EXPECT_EQ(finish(second).response().body(), "ab");
  EXPECT_EQ(client->metrics().idle, 1u);
  EXPECT_EQ(client->metrics().open, 1u);
  EXPECT_EQ(client->metrics().requests, 2u);
  EXPECT_EQ(client->metrics().origins, 1u);
  virtual_time.advance(31s);
  EXPECT_TRUE(ends(at));
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClient, EndsAConnectionThatOneSideWantsToEnd) {
  make();
  running_request& first = get();
  peer& one = accept();
  receive_head(one);
  one.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  finish(first);
  EXPECT_TRUE(ends(one));
  running_request& second =
      send(client_request(method::get, server.url()).set("Connection", "x, Close"));
  peer& two = accept();
  EXPECT_THAT(receive_head(two), HasSubstr("\r\nConnection: close\r\n"));
  two.send(ok);
  finish(second);
  EXPECT_TRUE(ends(two));
}

TEST_F(HttpClient, BytesBehindAResponseEndTheConnection) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send(std::string(ok) + std::string(ok));
  EXPECT_EQ(finish(request).response().body(), "ok");
  EXPECT_TRUE(ends(at));
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClient, FurtherRequestsWaitForAConnection) {
  make({.connections_per_host = 1, .waiting_per_host = 1});
  running_request& first = get("/1");
  peer& at = accept();
  receive_head(at);
  running_request& second = get("/2");
  running_request& third = get("/3");
  EXPECT_EQ(finish(third).error(), gyre::io::errc::waiting_limit);
  at.send(ok);
  finish(first);
  EXPECT_THAT(receive_head(at), StartsWith("GET /2 "));
  at.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
}

TEST_F(HttpClient, EachOriginHasItsConnections) {
  make();
  running_request& first = get();
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  finish(first);
  const std::string port = std::to_string(server.local_endpoint().port());
  running_request& second = send(client_request(method::get, "http://localhost:" + port + "/"));
  peer& other = accept();
  EXPECT_THAT(receive_head(other), HasSubstr("\r\nHost: localhost:" + port + "\r\n"));
  other.send(ok);
  finish(second);
  EXPECT_EQ(client->metrics().origins, 2u);
}

TEST_F(HttpClient, PoolsOfManyOriginsAreDropped) {
  make();
  for (int host = 1; host != 200; ++host) {
    const std::string url = "http://127.0.0." + std::to_string(host) + ":1/";
    EXPECT_EQ(finish(send(client_request(method::get, url))).error(),
              std::errc::connection_refused);
  }
  EXPECT_LE(client->metrics().origins, 64u);
}

// --- Connections that the server has closed meanwhile ---

TEST_F(HttpClient, RepeatsARequestThatMetAClosedConnection) {
  make();
  running_request& first = get();
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  running_request& second = get("/again");
  EXPECT_THAT(receive_head(old), StartsWith("GET /again "));
  old.close();
  peer& fresh = accept();
  EXPECT_THAT(receive_head(fresh), StartsWith("GET /again "));
  fresh.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
  EXPECT_EQ(client->metrics().retries, 1u);
}

TEST_F(HttpClient, RepeatsItOnANewConnectionAndOnlyOnce) {
  make();
  running_request& one = get("/1");
  peer& first = accept();
  receive_head(first);
  running_request& two = get("/2");
  peer& second = accept();
  receive_head(second);
  first.send(ok);
  second.send(ok);
  finish(one);
  finish(two);
  ASSERT_EQ(client->metrics().idle, 2u);
  running_request& third = get("/3");
  virtual_time.turn_until([&] {
    first.receive();
    second.receive();
    return first.text.size() + second.text.size() > 0;
  });
  (first.text.empty() ? second : first).close();
  peer& fresh = accept();
  EXPECT_THAT(receive_head(fresh), StartsWith("GET /3 "));
  fresh.close();
  EXPECT_EQ(finish(third).error(), errc::no_response);
  EXPECT_THAT(third.message(), HasSubstr("GET " + server.url("/3")));
  EXPECT_EQ(client->metrics().retries, 1u);
  EXPECT_EQ(client->metrics().open, 0u);
}

// A retry must not close a connection that another request gives back, and then wait again.
TEST_F(HttpClient, RepeatsARequestInItsTurnWhileAllConnectionsAreTaken) {
  make({.connections_per_host = 1});
  running_request& first = get("/1");
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  running_request& repeated = get("/repeated");
  receive_head(old);
  running_request& second = get("/2");
  virtual_time.settle();
  old.close();
  peer& busy = accept();
  EXPECT_THAT(receive_head(busy), StartsWith("GET /2 "));
  virtual_time.settle();  // the repeated request waits
  running_request& third = get("/3");
  virtual_time.settle();
  busy.send(ok);
  finish(second);
  peer& fresh = accept();
  EXPECT_THAT(receive_head(fresh), StartsWith("GET /repeated "));
  fresh.send(ok);
  finish(repeated);
  EXPECT_THAT(receive_head(fresh), StartsWith("GET /3 "));
  fresh.send(ok);
  EXPECT_EQ(finish(third).response().body(), "ok");
  EXPECT_EQ(client->metrics().retries, 1u);
  EXPECT_EQ(client->metrics().open, 1u);
}

// A server that gives up an idle connection may say so by a response, just as a request comes.
TEST_F(HttpClient, RepeatsARequestThatMetATimeLimitOfAnIdleConnection) {
  constexpr std::string_view closing =
      "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlate";
  constexpr std::string_view staying = "HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n";
  struct example {
    method which;
    std::string_view response;
    bool on_first;  // of the connection
    bool repeats;
  };
  for (const example& each :
       {example{method::get, closing, false, true}, example{method::get, closing, true, false},
        example{method::get, staying, false, false},
        example{method::post, closing, false, false}}) {
    make();
    peer* at = nullptr;
    if (!each.on_first) {
      running_request& first = get();
      at = &accept();
      receive_head(*at);
      at->send(ok);
      finish(first);
    }
    running_request& second = send(client_request(each.which, server.url("/again")));
    if (at == nullptr) at = &accept();
    receive_head(*at);
    at->send(each.response);
    if (each.repeats) {
      peer& fresh = accept();
      EXPECT_THAT(receive_head(fresh), StartsWith("GET /again "));
      fresh.send(ok);
    }
    const unsigned expected = each.repeats ? 200 : 408;
    EXPECT_EQ(gyre::http::to_number(finish(second).response().status()), expected);
    EXPECT_EQ(client->metrics().retries, each.repeats ? 1u : 0u);
    client.reset();
  }
}

TEST_F(HttpClient, RepeatsNoRequestThatMayHaveHadAnEffect) {
  make();
  running_request& first = get();
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  running_request& second = start(client->post(server.url(), "text/plain", "x"));
  receive_head(old);
  old.close();
  EXPECT_TRUE(finish(second).error() == errc::no_response ||
              second.error() == std::errc::connection_reset);
  EXPECT_EQ(client->metrics().retries, 0u);
}

TEST_F(HttpClient, RepeatsAPostThatIsSaidToBeIdempotent) {
  make();
  running_request& first = get();
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  client_request again(method::post, server.url());
  again.set_body("text/plain", "x").set_idempotent(true);
  running_request& second = send(std::move(again));
  receive_until(old, "\r\n\r\nx");
  old.close();
  peer& fresh = accept();
  receive_until(fresh, "\r\n\r\nx");
  fresh.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
}

TEST_F(HttpClient, RepeatsNothingAfterAByteOfTheResponse) {
  make();
  running_request& first = get();
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  running_request& second = get();
  receive_head(old);
  old.send("H");
  old.end_sending();
  EXPECT_EQ(finish(second).error(), errc::truncated);
  EXPECT_EQ(client->metrics().retries, 0u);
}

TEST_F(HttpClient, AnIdleConnectionThatWasClosedIsNotUsed) {
  make();
  running_request& first = get();
  peer& old = accept();
  receive_head(old);
  old.send(ok);
  finish(first);
  old.close();
  running_request& second = get();
  peer& fresh = accept();
  receive_head(fresh);
  fresh.send(ok);
  EXPECT_EQ(finish(second).response().body(), "ok");
  EXPECT_EQ(client->metrics().retries, 0u);
}

}  // namespace
}  // namespace http_client_test
