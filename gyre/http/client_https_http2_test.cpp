// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP client over HTTP/2 with gyre's own server, over TLS and in clear text.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/client.hpp>
#include <gyre/http/compress.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/tls/tls_context.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace http_client_https_http2_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::tls::test;
using gyre::task;
using gyre::http::body_writer;
using gyre::http::client_options;
using gyre::http::client_request;
using gyre::http::client_response;
using gyre::http::errc;
using gyre::http::method;
using gyre::http::request;
using gyre::http::request_body_writer;
using gyre::http::response;
using gyre::http::server_options;
using gyre::net::test::any_port;
using gyre::net::test::long_text;
using gyre::tls::tls_context;

class HttpsClientHttp2 : public testing::Test {
 protected:
  ~HttpsClientHttp2() override {
    client.reset();
    if (server) gyre::sync_wait(loop, stop(*server));
  }

  void serve(bool over_tls = true, server_options options = {}) {
    if (over_tls) {
      options.tcp.transport = gyre::tls::server_transport(tls_context::server(serving()));
    }
    is_secure = over_tls;
    server.emplace(loop, any_port(), options);
    server->get("/version", [](request& request) {
      return response::text(std::to_string(request.major_version()));
    });
    server->post("/echo",
                 [](request& request) { return response::text(std::string(request.body())); });
    server->get("/download", [](request&) {
      return response::stream("text/plain", [](body_writer& out) -> task<> {
        const std::string text = long_text(1'000'000);
        for (std::size_t at = 0; at < text.size(); at += 50'000) {
          co_await out.write(std::string_view(text).substr(at, 50'000));
        }
        out.add_trailer("Digest", "x");
      });
    });
    server->post("/upload",
                 [](request& request) -> task<response> {
                   std::size_t size = 0;
                   for (;;) {
                     const auto chunk = co_await request.next_chunk();
                     if (!chunk) break;
                     size += chunk->size();
                   }
                   const auto digest = request.trailers().get("Digest");
                   co_return response::text(std::to_string(size) + ' ' +
                                            std::string(digest.value_or("none")));
                 },
                 {.streamed_body = true});
    server->get("/slow", [](request&) -> task<response> {
      co_await gyre::sleep_for(1ms);
      co_return response::text("slow");
    });
  }
  client_options trusting_options() const {
    client_options options;
    options.tls = tls_context::client(trusting());
    options.http2.prior_knowledge = !is_secure;
    return options;
  }
  void make(client_options options) { client.emplace(loop, std::move(options)); }
  void make() { make(trusting_options()); }
  void start_serving() { server->start(); }
  std::string url(std::string_view path) const {
    return (is_secure ? "https://localhost:" : "http://localhost:") +
           std::to_string(server->local_endpoint().port()) + std::string(path);
  }
  client_response get(std::string_view path) {
    return gyre::sync_wait(loop, client->get(url(path)));
  }
  static task<> stop(gyre::http::server& stopping) { co_await stopping.stop_async(0s); }

  gyre::loop loop;
  std::optional<gyre::http::server> server;
  std::optional<gyre::http::client> client;
  bool is_secure = true;
};

TEST_F(HttpsClientHttp2, IsChosenByAlpn) {
  serve();
  start_serving();
  make();
  const client_response answer = get("/version");
  EXPECT_EQ(answer.body(), "2");
  EXPECT_EQ(answer.major_version(), 2U);
  EXPECT_EQ(get("/version").body(), "2");
  EXPECT_EQ(server->metrics().http2.connections, 1U);
  EXPECT_EQ(client->metrics().http2_connections, 1U);
}

TEST_F(HttpsClientHttp2, IsNotUsedWhenOneSideDoesNotWantIt) {
  server_options plain;
  plain.http2.enabled = false;
  serve(true, plain);
  start_serving();
  make();
  EXPECT_EQ(get("/version").body(), "1");
  client_options without = trusting_options();
  without.http2.enabled = false;
  make(without);
  EXPECT_EQ(get("/version").body(), "1");
}

TEST_F(HttpsClientHttp2, TheOptionsDecideWhatIsOffered) {
  serve();
  start_serving();
  client_options without = trusting_options();
  without.http2.enabled = false;
  make(without);
  EXPECT_EQ(get("/version").body(), "1");
  client_options named = trusting_options();
  auto context = trusting();
  context.application_protocols = {"http/1.1"};
  named.tls = tls_context::client(context);
  make(named);
  EXPECT_EQ(get("/version").body(), "1");
  context.application_protocols = {"h2"};
  named.tls = tls_context::client(context);
  make(named);
  EXPECT_EQ(get("/version").body(), "2");
  named.http2.enabled = false;
  make(named);
  try {
    get("/version");
    ADD_FAILURE() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), gyre::tls::errc::no_shared_application);
  }
}

TEST_F(HttpsClientHttp2, FirstRequestsShareOneHandshake) {
  serve();
  start_serving();
  make();
  std::vector<task<client_response>> requests;
  for (int i = 0; i < 50; ++i) requests.push_back(client->get(url("/slow")));
  const auto answers = gyre::sync_wait(loop, gyre::when_all(std::move(requests)));
  for (const client_response& each : answers) EXPECT_EQ(each.body(), "slow");
  EXPECT_EQ(server->metrics().http2.connections, 1U);
  EXPECT_EQ(client->metrics().open, 1U);
}

TEST_F(HttpsClientHttp2, FirstRequestsToAServerOfHttp1RunAtOnce) {
  server_options plain;
  plain.http2.enabled = false;
  serve(true, plain);
  start_serving();
  make();
  std::vector<task<client_response>> requests;
  for (int i = 0; i < 20; ++i) requests.push_back(client->get(url("/slow")));
  const auto answers = gyre::sync_wait(loop, gyre::when_all(std::move(requests)));
  for (const client_response& each : answers) EXPECT_EQ(each.body(), "slow");
  EXPECT_EQ(client->metrics().http2_connections, 0U);
  EXPECT_GT(client->metrics().open, 1U);
}

TEST_F(HttpsClientHttp2, MoreRequestsThanStreamsShareTheConnections) {
  server_options few;
  few.http2.max_streams = 3;
  serve(true, few);
  start_serving();
  client_options options = trusting_options();
  options.connections_per_host = 2;
  make(options);
  std::vector<task<client_response>> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(client->get(url("/slow")));
  const auto answers = gyre::sync_wait(loop, gyre::when_all(std::move(requests)));
  for (const client_response& each : answers) EXPECT_EQ(each.body(), "slow");
  EXPECT_LE(client->metrics().open, 2U);
}

TEST_F(HttpsClientHttp2, BodiesAreStreamedInBothDirections) {
  for (const bool secure : {true, false}) {
    serve(secure);
    start_serving();
    make();
    const auto download = [this]() -> task<std::string> {
      auto answer = co_await client->stream(client_request(method::get, url("/download")));
      std::string text;
      while (const auto chunk = co_await answer.next_chunk()) {
        text.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
      }
      co_return text + std::string(answer.trailers().get("Digest").value_or("none"));
    };
    EXPECT_EQ(gyre::sync_wait(loop, download()), long_text(1'000'000) + "x");
    client_request request(method::post, url("/upload"));
    request.set_stream("text/plain", [](request_body_writer& writer) -> task<> {
      const std::string piece(30'000, 'x');
      for (int i = 0; i < 40; ++i) co_await writer.write(piece);
      writer.add_trailer("Digest", "y");
    });
    EXPECT_EQ(gyre::sync_wait(loop, client->send(std::move(request))).body(), "1200000 y");
    client_request whole(method::post, url("/upload"));
    whole.set_body("", std::string(500'000, 'x'));
    EXPECT_EQ(gyre::sync_wait(loop, client->send(std::move(whole))).body(), "500000 none");
    client.reset();
    gyre::sync_wait(loop, stop(*server));
  }
}

TEST_F(HttpsClientHttp2, TheRestOfTheClientWorksAsWithHttp1) {
  serve();
  server->use(gyre::http::compress());
  server->get("/login", [this](request&) {
    return response(gyre::http::status::see_other)
        .set("Location", url("/private"))
        .set("Set-Cookie", "key=1; Path=/");
  });
  server->get("/private", [](request& request) {
    return response::text(std::string(request.field("Cookie").value_or("none")) + long_text(5000));
  });
  start_serving();
  client_options options = trusting_options();
  options.cookies = true;
  options.breaker = gyre::circuit_breaker_options{};
  options.hedging = gyre::http::hedging_options{.delay = 1ms, .max_share = 1};
  make(options);
  const client_response answer = get("/login");
  EXPECT_EQ(answer.body(), "key=1" + long_text(5000));
  EXPECT_FALSE(answer.fields().contains("Content-Encoding"));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(get("/slow").body(), "slow");
  EXPECT_EQ(server->metrics().http2.connections, 1U);
}

TEST_F(HttpsClientHttp2, AServerThatStopsFinishesRequests) {
  serve();
  start_serving();
  make();
  get("/version");
  auto both = [this]() -> task<std::string> {
    const auto stop_later = [](gyre::http::server& stopping) -> task<> {
      while (stopping.metrics().active == 0) co_await gyre::yield();
      co_await stopping.stop_async(10s);
    };
    auto results = gyre::when_all(client->get(url("/slow")), stop_later(*server));
    auto [answer, stopped] = co_await std::move(results);
    co_return std::string(answer.body());
  };
  EXPECT_EQ(gyre::sync_wait(loop, both()), "slow");
  server.reset();
}

// --- Stops at random moments ---

struct random_request {
  gyre::inplace_stop_source stop;
  std::string body;
  std::string result = {};
  bool is_stopped = false;
  bool is_done = false;
};

task<> run_random(gyre::http::client& client, std::string url, random_request& state) {
  client_request request(method::post, url);
  request.set_body("", state.body);
  auto sending = client.send(std::move(request));
  client_response sent = co_await std::move(sending);
  state.result = sent.take_body();
  state.is_done = true;
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& failure) {
    const bool is_stop = failure.code() == std::errc::operation_canceled;
    return is_stop ? "stopped" : failure.what();
  }
}

// Starts and stops requests at random. No answer may reach another request, and the connection
// must remain usable.
TEST_F(HttpsClientHttp2, StopsAtRandomMomentsHarmNoOtherRequest) {
  const char* const wanted = std::getenv("GYRE_RANDOM_STOPS");
  const int count = wanted != nullptr ? std::atoi(wanted) : 1000;
  server_options options;
  options.http2.reset_burst = 1'000'000;
  options.http2.frame_burst = 1'000'000;
  options.http2.body_memory = std::size_t{64} << 20;  // above it, requests are refused
  serve(false, options);
  start_serving();
  make();
  std::minstd_rand random(static_cast<std::uint32_t>(count));
  std::list<random_request> running;
  int started = 0;
  int answered = 0;
  while (started < count || !running.empty()) {
    while (started < count && running.size() < 30) {
      random_request& added = running.emplace_back();
      added.body = std::to_string(started++) + ' ';
      added.body += long_text(random() % 5 == 0 ? random() % 200'000 : random() % 2000);
      gyre::spawn(
          loop, run_random(*client, url("/echo"), added),
          {.stop = added.stop.get_token(), .on_error = [&added](const std::exception_ptr& error) {
             added.result = text_of(error);
             added.is_done = true;
           }});
    }
    for (unsigned turns = random() % 4; turns != 0; --turns) loop.poll();
    for (random_request& each : running) {
      if (each.is_done || random() % 30 != 0) continue;
      each.is_stopped = true;
      each.stop.request_stop();
    }
    for (auto each = running.begin(); each != running.end();) {
      if (!each->is_done) {
        ++each;
        continue;
      }
      const bool is_answer = each->result == each->body;
      EXPECT_TRUE(is_answer || (each->is_stopped && each->result == "stopped"))
          << each->body.substr(0, 20) << ": " << each->result.substr(0, 200);
      answered += is_answer ? 1 : 0;
      each = running.erase(each);
    }
  }
  EXPECT_GT(answered, 0);
  client_request last(method::post, url("/echo"));
  last.set_body("", "last");
  EXPECT_EQ(gyre::sync_wait(loop, client->send(std::move(last))).body(), "last");
  EXPECT_EQ(server->metrics().http2.floods, 0U);
  EXPECT_EQ(server->metrics().http2.connections, 1U);
}

}  // namespace
}  // namespace http_client_https_http2_test
