// SPDX-License-Identifier: Apache-2.0
// Tests of the client's circuit breakers and hedged requests, and of idle connections that their
// server closes.
#include <gyre/http/client.hpp>

#include <gyre/http/server.hpp>
#include <gyre/io/error.hpp>
#include <tests/support/http_peers.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace http_client_resilience_test {
namespace {

using namespace std::chrono_literals;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::status;
using gyre::http::test::ok;
using gyre::http::test::running_request;
using gyre::net::test::any_port;
using gyre::net::test::peer;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view failure = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

class HttpClientBreaker : public gyre::http::test::http_client_test {
 protected:
  static client_options options() {
    return {.timeouts = {.first_byte = 3s},
            .breaker = gyre::circuit_breaker_options{.min_calls = 2, .open_time = 10s}};
  }
  // A request that the server answers on the only connection.
  running_request& ask(std::string_view answer) {
    running_request& request = get();
    if (connection == nullptr) connection = &accept();
    receive_head(*connection);
    connection->send(answer);
    return finish(request);
  }
  bool is_refused() {
    running_request& request = finish(get());
    if (request.error() != errc::circuit_open) return false;
    EXPECT_THAT(request.message(), HasSubstr("GET " + server.url()));
    return true;
  }

  peer* connection = nullptr;
};

TEST_F(HttpClientBreaker, IsOffByDefault) {
  make();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ask(failure).response().status(), status::service_unavailable);
  }
  EXPECT_EQ(client->metrics().open_circuits, 0u);
}

TEST_F(HttpClientBreaker, RefusesRequestsToAServerThatFails) {
  make(options());
  ask(failure);
  EXPECT_EQ(ask(failure).response().status(), status::service_unavailable);
  EXPECT_EQ(client->metrics().open_circuits, 1u);
  EXPECT_TRUE(is_refused());
  virtual_time.advance(10s);
  EXPECT_EQ(ask(failure).response().status(), status::service_unavailable);  // the probe
  EXPECT_TRUE(is_refused());
  virtual_time.advance(10s);
  running_request& probe = get();
  receive_head(*connection);
  EXPECT_TRUE(is_refused());  // while the probe runs
  connection->send(ok);
  EXPECT_EQ(finish(probe).response().body(), "ok");
  EXPECT_EQ(ask(ok).response().body(), "ok");
  EXPECT_EQ(client->metrics().circuit_refusals, 3u);
  EXPECT_EQ(client->metrics().open_circuits, 0u);
}

TEST_F(HttpClientBreaker, CountsBrokenConnectionsAndTimeLimits) {
  make(options());
  EXPECT_TRUE(answer_get("").error());
  running_request& slow = get();
  receive_head(accept());
  virtual_time.settle();
  virtual_time.advance(4s);
  EXPECT_EQ(finish(slow).error(), errc::timed_out);
  EXPECT_TRUE(is_refused());
}

TEST_F(HttpClientBreaker, CountsAServerThatRefusesConnections) {
  server.close();
  make(options());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(finish(get()).error(), std::errc::connection_refused);
  }
  EXPECT_TRUE(is_refused());
}

TEST_F(HttpClientBreaker, CountsMalformedResponses) {
  make(options());
  for (int i = 0; i < 2; ++i) answer_get("nonsense\r\n\r\n");
  EXPECT_TRUE(is_refused());
}

TEST_F(HttpClientBreaker, CountsABodyThatEndsEarly) {
  make(options());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(answer_get("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx").error(), errc::truncated);
  }
  EXPECT_TRUE(is_refused());
}

TEST_F(HttpClientBreaker, FaultsOfTheRequestDoNotCount) {
  client_options limited = options();
  limited.limits.body = 1;
  make(limited);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(answer_get("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").error(),
              errc::body_too_large);
  }
  for (const std::string_view code : {"400 a", "404 a", "429 a", "501 a", "505 a"}) {
    ask("HTTP/1.1 " + std::string(code) + "\r\nContent-Length: 0\r\n\r\n");
  }
  EXPECT_EQ(client->metrics().open_circuits, 0u);
}

TEST_F(HttpClientBreaker, AStoppedProbeMakesRoomForAnother) {
  make(options());
  ask(failure);
  ask(failure);
  virtual_time.advance(10s);
  running_request& stopped = get();
  receive_head(*connection);
  stopped.request_stop();
  finish(stopped);
  connection = nullptr;
  EXPECT_EQ(ask(ok).response().body(), "ok");
}

TEST_F(HttpClientBreaker, EachOriginIsJudgedByItself) {
  gyre::http::test::scripted_server other;
  make(options());
  ask(failure);
  ask(failure);
  EXPECT_TRUE(is_refused());
  running_request& request = send(client_request(method::get, other.url()));
  peer* at = nullptr;
  virtual_time.turn_until([&] { return (at = other.accept()) != nullptr; });
  receive_head(*at);
  at->send("HTTP/1.1 302 F\r\nContent-Length: 0\r\nLocation: " + server.url() + "\r\n\r\n");
  EXPECT_EQ(finish(request).error(), errc::circuit_open);  // the target of the redirect refuses
  EXPECT_EQ(client->metrics().open_circuits, 1u);
}

TEST_F(HttpClientBreaker, AStreamedResponseIsJudgedByItsHead) {
  make(options());
  for (int i = 0; i < 2; ++i) {
    running_request& request = start(client->stream(client_request(method::get, server.url())));
    peer& at = accept();
    receive_head(at);
    at.send(failure);
    EXPECT_EQ(finish(request).response().status(), status::service_unavailable);
  }
  EXPECT_TRUE(is_refused());
}

TEST_F(HttpClientBreaker, RefusesOptionsOutOfRange) {
  EXPECT_THROW(make({.breaker = gyre::circuit_breaker_options{.min_calls = 0}}),
               std::invalid_argument);
}

// --- Hedged requests ---

class HttpClientHedging : public gyre::http::test::http_client_test {
 protected:
  static client_options options(double max_share = 0.1, std::size_t attempts = 2) {
    return {.hedging = gyre::http::hedging_options{
                .delay = 100ms, .attempts = attempts, .max_share = max_share}};
  }
  peer& accept_request() {
    peer& at = accept();
    head = receive_head(at);
    return at;
  }
  void pass(std::chrono::milliseconds time) {
    virtual_time.settle();
    virtual_time.advance(time);
    virtual_time.settle();
  }

  std::string head;
};

TEST_F(HttpClientHedging, UsesTheSecondAttemptIfItIsFaster) {
  make(options());
  running_request& request = get();
  peer& first = accept_request();
  pass(99ms);
  EXPECT_EQ(server.accept(), nullptr);
  pass(2ms);
  peer& second = accept_request();
  EXPECT_THAT(head, StartsWith("GET / HTTP/1.1\r\n"));
  second.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  EXPECT_TRUE(ends(first));
  EXPECT_EQ(client->metrics().requests, 1u);
  EXPECT_EQ(client->metrics().hedges, 1u);
  EXPECT_EQ(client->metrics().hedges_used, 1u);
}

TEST_F(HttpClientHedging, UsesTheFirstAttemptIfItIsFaster) {
  make(options());
  running_request& request = get();
  peer& first = accept_request();
  pass(101ms);
  peer& second = accept_request();
  first.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  EXPECT_TRUE(ends(second));
  EXPECT_EQ(client->metrics().hedges_used, 0u);
}

TEST_F(HttpClientHedging, AQuickResponseNeedsOneAttempt) {
  make(options());
  running_request& request = get();
  accept_request().send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
  pass(1s);
  EXPECT_EQ(server.accept(), nullptr);
  EXPECT_EQ(client->metrics().hedges, 0u);
}

TEST_F(HttpClientHedging, SendsTheSameFieldsAndBodyAgain) {
  make(options());
  client_request put(method::put, server.url("/a?b"));
  put.set("X-A", "1").set_body("text/plain", "hello");
  running_request& request = send(std::move(put));
  peer& first = accept();
  const std::string sent = receive_until(first, "hello");
  pass(101ms);
  peer& second = accept();
  EXPECT_EQ(receive_until(second, "hello"), sent);
  second.send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

TEST_F(HttpClientHedging, DoesNotRepeatOtherRequests) {
  make(options());
  running_request& request = start(client->post(server.url(), "text/plain", "x"));
  peer& first = accept_request();
  pass(1s);
  EXPECT_EQ(server.accept(), nullptr);
  first.send(ok);
  finish(request);
  client_request put(method::put, server.url());
  put.set_stream("text/plain", [](gyre::http::request_body_writer& out) { return out.write("x"); });
  running_request& streamed = send(std::move(put));
  receive_until(first, "0\r\n\r\n");
  pass(1s);
  EXPECT_EQ(server.accept(), nullptr);
  first.send(ok);
  finish(streamed);
}

TEST_F(HttpClientHedging, TheShareOfAdditionalAttemptsIsLimited) {
  make(options(0.1));
  for (int i = 0; i < 40; ++i) {
    running_request& request = get();
    peer* at = nullptr;
    virtual_time.turn_until([&] {
      if (at == nullptr) at = server.accept();
      return at != nullptr;
    });
    receive_head(*at);
    pass(101ms);
    at->send(ok);
    at->end_sending();
    finish(request);
    while (peer* const each = server.accept()) each->close();
    pass(1s);  // the idle connections are closed
  }
  // Ten attempts are saved at first, and each tenth request allows another one.
  EXPECT_GE(client->metrics().hedges, 13u);
  EXPECT_LE(client->metrics().hedges, 14u);
  EXPECT_EQ(client->metrics().hedges + client->metrics().hedges_denied, 40u);
}

TEST_F(HttpClientHedging, WithoutAShareTheErrorIsThatOfTheAttempt) {
  make(options(0));
  running_request& request = answer_get("");
  EXPECT_EQ(request.error(), errc::no_response);
  running_request& late = get();
  peer& at = accept_request();
  pass(101ms);
  at.end_sending();
  EXPECT_EQ(finish(late).error(), errc::no_response);
  EXPECT_EQ(client->metrics().hedges, 0u);
}

TEST_F(HttpClientHedging, RepeatsAFailedAttemptAtOnce) {
  make(options());
  running_request& request = get();
  accept_request().end_sending();
  accept_request().send(ok);
  EXPECT_EQ(finish(request).response().body(), "ok");
}

TEST_F(HttpClientHedging, TheTotalLimitHoldsForAllAttempts) {
  client_options limited = options(1, 3);
  limited.timeouts.total = 250ms;
  make(limited);
  running_request& request = get();
  accept_request();
  pass(101ms);
  accept_request();
  pass(101ms);
  accept_request();
  pass(49ms);
  EXPECT_EQ(finish(request).error(), errc::timed_out);
}

TEST_F(HttpClientHedging, AStopEndsAllAttempts) {
  make(options());
  running_request& request = get();
  peer& first = accept_request();
  pass(101ms);
  peer& second = accept_request();
  request.request_stop();
  EXPECT_EQ(finish(request).error(), std::errc::operation_canceled);
  EXPECT_TRUE(ends(first));
  EXPECT_TRUE(ends(second));
}

TEST_F(HttpClientHedging, StreamsTheResponseOfTheWinner) {
  make(options());
  running_request& request = start(client->stream(client_request(method::get, server.url())));
  accept_request();
  pass(101ms);
  accept_request().send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(finish(request).response().content_length(), 2u);
}

TEST_F(HttpClientHedging, EachAttemptIsJudgedByTheBreaker) {
  client_options both = options();
  both.breaker = gyre::circuit_breaker_options{.min_calls = 2};
  make(both);
  running_request& request = get();
  accept_request().end_sending();
  accept_request().end_sending();
  EXPECT_EQ(finish(request).error(), errc::no_response);
  EXPECT_EQ(client->metrics().open_circuits, 1u);
  EXPECT_EQ(finish(get()).error(), errc::circuit_open);
  EXPECT_EQ(client->metrics().hedges, 1u);  // a refused request is not repeated
}

TEST_F(HttpClientHedging, RefusesOptionsOutOfRange) {
  using gyre::http::hedging_options;
  EXPECT_THROW(make({.hedging = hedging_options{.delay = 0s}}), std::invalid_argument);
  EXPECT_THROW(make({.hedging = hedging_options{.attempts = 1}}), std::invalid_argument);
  EXPECT_THROW(make({.hedging = hedging_options{.max_share = 1.1}}), std::invalid_argument);
  EXPECT_THROW(
      make({.hedging = hedging_options{.max_share = std::numeric_limits<double>::quiet_NaN()}}),
      std::invalid_argument);
}

// --- Idle connections ---

class HttpClientIdle : public gyre::http::test::http_client_test {};

TEST_F(HttpClientIdle, ClosesAConnectionThatTheServerHasClosed) {
  make();
  running_request& request = get();
  peer& at = accept();
  receive_head(at);
  at.send(ok);
  finish(request);
  virtual_time.settle();
  virtual_time.advance(1s);
  virtual_time.settle();
  EXPECT_EQ(client->metrics().idle, 1u);
  at.end_sending();
  EXPECT_TRUE(ends(at));
  EXPECT_EQ(client->metrics().open, 0u);
}

TEST_F(HttpClientIdle, AServersStopNeedNotWaitForTheClient) {
  gyre::http::server own(virtual_time.loop, any_port());
  own.get("/", [](gyre::http::request&) { return gyre::http::response::text("ok"); });
  own.start();
  make();
  const std::string url = "http://" + own.local_endpoint().to_string() + "/";
  finish(send(client_request(method::get, url)));
  virtual_time.settle();
  virtual_time.advance(1s);
  virtual_time.settle();
  bool has_stopped = false;
  own.stop(1h, [&] { has_stopped = true; });
  virtual_time.turn_until([&] { return has_stopped; });  // and no time passes
  EXPECT_EQ(client->metrics().open, 0u);
}

}  // namespace
}  // namespace http_client_resilience_test
