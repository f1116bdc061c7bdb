// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/http_client.hpp>

#include <gyre/http/compress.hpp>
#include <gyre/http/event_stream.hpp>
#include <gyre/http/file_server.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/server.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/http_exchange.hpp>
#include <gyre/testing/io_in_virtual_time.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/transport.hpp>
#include <tests/support/temporary_folder.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace testing_http_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::client_response;
using gyre::http::method;
using gyre::http::request;
using gyre::http::response;
using gyre::http::status;
using gyre::testing::http_client;
using gyre::testing::http_client_options;
using gyre::testing::http_exchange;
using testing::HasSubstr;
using testing::StartsWith;

class HttpClient : public testing::Test {
 protected:
  // Constructed when the test has added its routes.
  http_client& client(http_client_options options = {}) {
    if (!client_) client_.emplace(world, server, std::move(options));
    return *client_;
  }

  gyre::testing::io_in_virtual_time world;
  gyre::http::server server{world.loop};

 private:
  std::optional<http_client> client_;
};

TEST_F(HttpClient, SpeaksHttp2IfTheOptionsSaySo) {
  server.get("/", [](request& request) {
    return response::text(std::to_string(request.major_version()));
  });
  http_client_options settings;
  settings.client.http2.prior_knowledge = true;
  const unsigned version = client(settings).get("/").major_version();
  EXPECT_EQ(client().get("/").body(), std::to_string(version));
  EXPECT_LE(client().client().metrics().open, 1U);
}

TEST_F(HttpClient, ReadsTheResponsesOfRoutes) {
  server.get("/users/{id}", [](request& request) {
    return response::text("user " + request.param("id") + " of page " +
                          std::string(request.query().get("page").value_or("none")))
        .set("X-Kind", "user");
  });
  const client_response answer = client().get("/users/7?page=2");
  EXPECT_EQ(answer.status(), status::ok);
  EXPECT_EQ(answer.field("X-Kind"), "user");
  EXPECT_EQ(answer.body(), "user 7 of page 2");
  EXPECT_EQ(client().get("/nothing").status(), status::not_found);
  EXPECT_EQ(client().post("/users/7", "text/plain", "x").status(), status::method_not_allowed);
  EXPECT_EQ(server.metrics().requests, 3U);
}

TEST_F(HttpClient, SendsFieldsAndBodies) {
  server.post("/echo", [](request& request) {
    return response::text(std::string(request.body()) +
                          std::string(request.field("X-Mark").value_or("?")));
  });
  auto request = client().request(method::post, "/echo").set_body("text/plain", "body ");
  request.set("X-Mark", "marked");
  EXPECT_EQ(client().send(std::move(request)).body(), "body marked");
  EXPECT_EQ(client().get("http://other.example/echo").status(), status::method_not_allowed);
}

TEST_F(HttpClient, TheHandlerSeesTheAddressOfTheClient) {
  server.get("/", [](request& request) {
    return response::text(request.peer_endpoint().to_string() + " " + std::string(request.host()));
  });
  EXPECT_THAT(std::string(client({.origin = "http://shop.example:81",
                                  .address = gyre::net::ip_address("2001:db8::7")})
                              .get("/")
                              .body()),
              testing::MatchesRegex(R"(\[2001:db8::7\]:[0-9]+ shop\.example:81)"));
}

TEST_F(HttpClient, RedirectsAreShownNotFollowed) {
  server.get("/old", [](request&) { return response(status::see_other).set("Location", "/new"); });
  EXPECT_EQ(client().get("/old").field("Location"), "/new");
}

TEST_F(HttpClient, AHandlerThatSleepsTakesNoTime) {
  server.get("/slow", [](request&) -> task<response> {
    co_await gyre::sleep_for(2h);
    co_return response::text("at last");
  });
  const gyre::steady_time begin = world.now();
  EXPECT_EQ(client().get("/slow").body(), "at last");
  EXPECT_GE(world.now() - begin, 2h);
}

TEST_F(HttpClient, AHandlerThatNeverRespondsIsAnError) {
  gyre::manual_reset_event never;
  server.get("/never", [&](request&) -> task<response> {
    co_await never.wait();
    co_return response();
  });
  EXPECT_THROW(client().get("/never"), std::exception);
  world.settle();
  EXPECT_EQ(server.metrics().active, 0U);
}

TEST_F(HttpClient, RequestsAreInProgressAtTheSameTime) {
  gyre::manual_reset_event released;
  server.get("/wait/{id}", [&](request& request) -> task<response> {
    co_await released.wait();
    co_return response::text(request.param("id"));
  });
  http_exchange one = client().start("/wait/1");
  http_exchange other = client().start("/wait/2");
  EXPECT_FALSE(one.has_response() || other.has_response());
  EXPECT_EQ(server.metrics().active, 2U);
  released.set();
  EXPECT_TRUE(one.has_response() && other.has_response());
  EXPECT_EQ(other.read_body(), "2");
  EXPECT_EQ(one.read_body(), "1");
}

// --- Streams ---

TEST_F(HttpClient, AStreamedResponseIsReadInPiecesWithItsTrailers) {
  gyre::auto_reset_event step;
  server.get("/numbers", [&](request&) {
    return response::stream("text/plain", [&](body_writer& body) -> task<> {
      for (int i = 1; i <= 3; ++i) {
        co_await step.wait();
        co_await body.write(std::to_string(i));
      }
      body.add_trailer("X-Count", "3");
    });
  });
  http_exchange numbers = client().start("/numbers");
  EXPECT_EQ(numbers.status(), status::ok);
  step.set();
  EXPECT_EQ(numbers.next_chunk(), "1");
  step.set();
  EXPECT_EQ(numbers.next_chunk(), "2");
  EXPECT_TRUE(numbers.response().trailers().empty());
  step.set();
  EXPECT_EQ(numbers.read_body(), "3");
  EXPECT_EQ(numbers.next_chunk(), std::nullopt);
  EXPECT_EQ(numbers.response().trailers().get("X-Count"), "3");
}

TEST_F(HttpClient, AStreamedRequestWaitsForItsReader) {
  std::size_t received = 0;
  server.route(
      method::put, "/upload",
      [&](request& request) -> task<response> {
        for (;;) {
          auto reading = request.next_chunk();
          const auto piece = co_await std::move(reading);
          if (!piece) break;
          received += piece->size();
          co_await gyre::sleep_for(1s);
        }
        co_return response::text(std::to_string(received) + " " +
                                 std::string(request.trailers().get("X-Sum").value_or("?")));
      },
      {.streamed_body = true});
  auto upload = client().request(method::put, "/upload");
  upload.set_stream("text/plain", [](gyre::http::request_body_writer& body) -> task<> {
    const std::string piece(64 << 10, 'x');
    for (int i = 0; i < 32; ++i) co_await body.write(piece);
    body.add_trailer("X-Sum", "7");
  });
  EXPECT_EQ(client().send(std::move(upload)).body(), std::to_string(2 << 20) + " 7");
}

TEST_F(HttpClient, EventsAreReadOneByOne) {
  server.get("/ticks", [](request& request) {
    const std::string last(gyre::http::last_event_id(request).value_or("0"));
    return gyre::http::event_stream([last](gyre::http::event_writer& events) -> task<> {
      for (int i = std::stoi(last) + 1; i <= 3; ++i) {
        co_await gyre::sleep_for(1h);
        const std::string data = "tick " + std::to_string(i);
        const std::string id = std::to_string(i);
        auto sending = events.send({.data = data, .event = "tick", .id = id});
        co_await std::move(sending);
      }
    });
  });
  http_exchange ticks = client().start("/ticks");
  EXPECT_EQ(ticks.field("Content-Type"), "text/event-stream");
  EXPECT_EQ(ticks.next_event()->data, "tick 1");
  const auto second = ticks.next_event();
  EXPECT_EQ(second->event, "tick");
  EXPECT_EQ(second->id, "2");
  EXPECT_EQ(ticks.next_event()->data, "tick 3");
  EXPECT_FALSE(ticks.next_event().has_value());
  auto again = client().request(method::get, "/ticks");
  again.set("Last-Event-ID", "2");
  EXPECT_EQ(client().start(std::move(again)).next_event()->data, "tick 3");
}

TEST_F(HttpClient, AClientThatLeavesStopsItsHandler) {
  bool was_stopped = false;
  gyre::manual_reset_event never;
  server.get("/wait", [&](request&) -> task<response> {
    try {
      co_await never.wait();
    } catch (const gyre::operation_cancelled&) {
      was_stopped = true;
      throw;
    }
    co_return response();
  });
  http_exchange waiting = client().start("/wait");
  EXPECT_EQ(server.metrics().active, 1U);
  waiting.leave();
  EXPECT_TRUE(was_stopped);
  EXPECT_EQ(server.metrics().active, 0U);
  EXPECT_THROW(waiting.response(), std::logic_error);
  waiting.leave();
}

TEST_F(HttpClient, AClientThatLeavesAStreamEndsIt) {
  bool has_ended = false;
  server.get("/for-ever", [&](request&) {
    return response::stream("text/plain", [&](body_writer& body) -> task<> {
      struct end {
        bool& noted;
        ~end() { noted = true; }
      } const at_end{has_ended};
      for (;;) {
        co_await body.write("more ");
        co_await gyre::sleep_for(1min);
      }
    });
  });
  http_exchange stream = client().start("/for-ever");
  EXPECT_EQ(stream.next_chunk(), "more ");
  EXPECT_EQ(stream.next_chunk(), "more ");
  EXPECT_FALSE(has_ended);
  stream.leave();
  EXPECT_TRUE(has_ended);
}

TEST_F(HttpClient, TheDestructorLetsHandlersEnd) {
  gyre::manual_reset_event never;
  bool has_ended = false;
  server.get("/wait", [&](request&) -> task<response> {
    struct end {
      bool& noted;
      ~end() { noted = true; }
    } const at_end{has_ended};
    co_await never.wait();
    co_return response();
  });
  {
    http_client own(world, server);
    const http_exchange waiting = own.start("/wait");
  }
  EXPECT_TRUE(has_ended);
}

// --- Limits ---

TEST_F(HttpClient, TheServersLimitsHold) {
  server.post("/small", [](request&) { return response(); }, {.body_limit = 10});
  EXPECT_EQ(client().post("/small", "text/plain", "0123456789").status(), status::ok);
  EXPECT_EQ(client().post("/small", "text/plain", "0123456789a").status(),
            status::content_too_large);
  auto long_field = client().request(method::get, "/small");
  long_field.set("X-Long", std::string(100'000, 'x'));
  EXPECT_EQ(client().send(std::move(long_field)).status(), status::request_header_fields_too_large);
}

TEST_F(HttpClient, ATestSendsItsOwnBytes) {
  server.get("/", [](request&) { return response::text("never"); });
  gyre::net::tcp_stream raw = client().connect();
  const auto talk = [](gyre::net::tcp_stream& own, std::string_view bytes) -> task<std::string> {
    std::string text;
    co_await own.write_all(bytes);
    for (;;) {
      auto received = co_await own.receive();
      if (received.empty()) co_return text;
      text += received.text();
    }
  };
  EXPECT_THAT(world.run(talk(raw, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")),
              StartsWith("HTTP/1.1 400 "));
  const gyre::steady_time begin = world.now();
  gyre::net::tcp_stream slow = client().connect();
  EXPECT_THAT(world.run(talk(slow, "GET / HT")), StartsWith("HTTP/1.1 408 "));
  EXPECT_GE(world.now() - begin, 10s);
}

// --- The rest of the server ---

TEST_F(HttpClient, MiddlewareAndCompressionRunAsInProduction) {
  server.use(gyre::http::compress());
  server.get("/long", [](request&) { return response::text(std::string(100'000, 'x')); });
  EXPECT_EQ(client().get("/long").body().size(), 100'000U);
  auto packed = client().request(method::get, "/long");
  packed.set("Accept-Encoding", "gzip");
  const client_response answer = client().send(std::move(packed));
  EXPECT_EQ(answer.field("Content-Encoding"), "gzip");
  EXPECT_LT(answer.body().size(), 10'000U);
}

TEST_F(HttpClient, FilesAreServed) {
  const gyre::test::temporary_folder folder;
  folder.make_file("page.txt", std::string(3 << 20, 'p'));
  server.get("/files/{path...}", gyre::http::file_server(folder.path()));
  EXPECT_EQ(client().get("/files/page.txt").body().size(), std::size_t{3} << 20);
  auto part = client().request(method::get, "/files/page.txt");
  part.set("Range", "bytes=0-9");
  EXPECT_EQ(client().send(std::move(part)).body(), "pppppppppp");
}

TEST_F(HttpClient, AServerOverTlsIsAskedOverTls) {
  gyre::test::test_authority authority;
  const gyre::test::issued own = authority.issue();
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(gyre::tls::tls_context::server(
      {.certificates = {{.chain = gyre::tls::pem::text(own.certificate),
                         .key = gyre::tls::pem::text(own.key)}}}));
  gyre::http::server secure(world.loop, options);
  secure.get("/", [](request& request) {
    return response::text(request.peer_endpoint().address().to_string());
  });
  http_client_options settings{.origin = "https://localhost"};
  settings.client.tls = gyre::tls::tls_context::client(
      {.authorities = {gyre::tls::pem::text(authority.certificate())}});
  http_client asking(world, secure, settings);
  EXPECT_EQ(asking.get("/").body(), "192.0.2.1");
  EXPECT_EQ(asking.get("/").body(), "192.0.2.1");
}

TEST_F(HttpClient, AResponderMayAnswerFromAnotherThread) {
  std::jthread other;
  server.get("/later", [&](request&, gyre::http::responder answer) {
    other = std::jthread([answer = std::move(answer)] { answer.send(response::text("later")); });
  });
  world.set_waiting_for_threads(true);
  EXPECT_EQ(client().get("/later").body(), "later");
}

TEST_F(HttpClient, ManyCoroutinesShareTheClient) {
  server.get("/{id}", [](request& request) { return response::text(request.param("id")); });
  const auto ask = [](gyre::http::client& shared, int number) -> task<int> {
    const client_response answer =
        co_await shared.get("http://localhost/" + std::to_string(number));
    co_return std::stoi(std::string(answer.body()));
  };
  std::vector<task<int>> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(ask(client().client(), i));
  const std::vector<int> numbers = world.run(gyre::when_all(std::move(requests)));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(numbers.at(static_cast<std::size_t>(i)), i);
  EXPECT_LE(client().client().metrics().open, 8U);
}

TEST_F(HttpClient, FurtherClientsHaveTheirOwnConnections) {
  server.get("/", [](request& request) {
    return response::text(std::to_string(request.peer_endpoint().port()));
  });
  gyre::http::client other(world.loop, client().options());
  const client_response first = client().get("/");
  const client_response second = world.run(other.get(client().url("/")));
  EXPECT_NE(first.body(), second.body());
  EXPECT_EQ(world.run(other.get(client().url("/"))).body(), second.body());
}

TEST_F(HttpClient, UpgradedConnectionsTalkBothWays) {
  server.get("/echo", [](request&) {
    return response::upgrade("echo", [](gyre::http::upgraded_connection& peer) -> task<> {
      for (;;) {
        auto reading = peer.next();
        const auto bytes = co_await std::move(reading);
        if (!bytes) co_return;
        co_await gyre::sleep_for(1h);
        co_await peer.write(*bytes);
      }
    });
  });
  gyre::net::tcp_stream raw = client().connect();
  const auto talk = [](gyre::net::tcp_stream& own) -> task<std::string> {
    gyre::io::buffer input;
    co_await own.write_all(
        "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    const std::size_t head = co_await own.read_until(input, "\r\n\r\n");
    std::string text(input.text().substr(0, input.text().find("\r\n")));
    input.consume(head);
    co_await own.write_all("hello");
    co_await own.read_until(input, "hello");
    text.append(" ").append(input.text());
    co_return text;
  };
  EXPECT_THAT(world.run(talk(raw)), testing::MatchesRegex("HTTP/1.1 101 .*hello"));
}

TEST_F(HttpClient, TheStopOfAServerIsTested) {
  bool is_stopping = false;
  server.get("/wait", [&](request& request) -> task<response> {
    co_await gyre::sleep_for(3s);
    is_stopping = request.server_stop_token().stop_requested();
    co_return response::text("done");
  });
  http_exchange waiting = client().start("/wait");
  world.run(server.stop_async(10s));
  EXPECT_TRUE(is_stopping);
  EXPECT_EQ(waiting.read_body(), "done");
  EXPECT_THROW(client().get("/wait"), std::system_error);
}

}  // namespace
}  // namespace testing_http_client_test
