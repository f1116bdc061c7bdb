// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP server over TLS.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace https_test {
namespace {

using namespace gyre::tls::test;
using gyre::task;
using gyre::net::test::any_port;
using gyre::tls::tls_context;
using testing::HasSubstr;
using testing::StartsWith;

task<std::string> ask_twice(std::string to) {
  const auto context = tls_context::client(trusting());
  auto secure = co_await gyre::tls::connect(to, context);
  std::string all;
  co_await secure.write_all("GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  gyre::io::buffer got;
  const std::size_t first = co_await secure.read_until(got, "over TLS");
  all += got.text().substr(0, first);
  got.consume(first);
  co_await secure.write_all("GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  all += got.text();
  for (;;) {
    auto more = co_await secure.receive();  // to close_notify
    if (more.empty()) co_return all;
    all += more.text();
  }
}

TEST(Https, ServesRequestsOverTls) {
  gyre::loop loop;
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(tls_context::server(serving()));
  gyre::http::server server(loop, any_port(), options);
  server.get("/hello", [](gyre::http::request&) { return gyre::http::response::text("over TLS"); });
  server.start();
  const std::string to = "localhost:" + std::to_string(server.local_endpoint().port());
  const std::string all = gyre::sync_wait(loop, ask_twice(to));
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(all, HasSubstr("over TLSHTTP/1.1 200 OK\r\n"));
}

// The number of answers to requests that were sent together, with close_notify behind them.
task<std::size_t> pipeline(gyre::net::endpoint to, std::size_t count) {
  const auto context = tls_context::client(trusting());
  gyre::net::tcp_stream connected = co_await gyre::net::connect(to);
  auto shaking = gyre::tls::connect(std::move(connected), "localhost", context);
  gyre::tls::tls_stream secure = co_await std::move(shaking);
  std::string requests;
  for (std::size_t i = 0; i < count; ++i) requests += "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n";
  co_await secure.write_all(requests);
  co_await secure.shutdown();
  std::string all;
  for (;;) {
    auto more = co_await secure.receive();
    if (more.empty()) break;
    all += more.text();
  }
  std::size_t answers = 0;
  for (std::size_t at = 0; (at = all.find("200 OK", at)) != std::string::npos; ++at) ++answers;
  co_return answers;
}

TEST(Https, AnswersAllRequestsBeforeCloseNotify) {
  gyre::loop loop;
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(tls_context::server(serving()));
  options.limits.pipelined = 16;
  gyre::http::server server(loop, any_port(), options);
  server.get("/hello", [](gyre::http::request&) { return gyre::http::response::text("hello"); });
  server.start();
  EXPECT_EQ(gyre::sync_wait(loop, pipeline(server.local_endpoint(), 200)), 200u);
}

// The statuses of the answers to requests for `hosts`, on one connection that names `server_name`.
task<std::string> ask(gyre::net::endpoint to, std::string server_name,
                      std::vector<std::string> hosts) {
  const auto context = tls_context::client({.verify = false});
  gyre::net::tcp_stream connected = co_await gyre::net::connect(to);
  auto shaking = gyre::tls::connect(std::move(connected), std::move(server_name), context);
  gyre::tls::tls_stream secure = co_await std::move(shaking);
  std::string statuses;
  gyre::io::buffer got;
  for (const std::string& host : hosts) {
    const std::string request = "HEAD / HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    co_await secure.write_all(request);
    const std::size_t size = co_await secure.read_until(got, "\r\n\r\n");
    statuses += got.text().substr(9, 4);
    got.consume(size);
  }
  co_return statuses;
}

TEST(Https, AHostWithAnotherCertificateIsMisdirected) {
  gyre::loop loop;
  auto serves = serving({.alternative_names = "DNS:a.test,DNS:also.test"});
  serves.certificates.push_back(
      in_memory(authority().issue({.alternative_names = "DNS:b.test,DNS:*.b.test"})));
  const auto context = tls_context::server(serves);
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(context);
  gyre::http::server server(loop, any_port(), options);
  server.get("/", [](gyre::http::request&) { return gyre::http::response::text("x"); });
  server.start();
  const auto statuses = [&](std::string name, std::vector<std::string> hosts) {
    return gyre::sync_wait(loop, ask(server.local_endpoint(), std::move(name), std::move(hosts)));
  };
  EXPECT_EQ(statuses("a.test", {"a.test", "b.test", "c.b.test:443", "A.TEST:443", "also.test"}),
            "200 421 421 200 200 ");
  EXPECT_EQ(statuses("b.test", {"B.test.", "x.b.test", "a.test", "unknown.test"}),
            "200 200 421 421 ");
  EXPECT_EQ(statuses("unknown.test", {"unknown.test", "a.test", "b.test"}), "200 200 421 ")
      << "the first certificate is for unknown names";
  EXPECT_EQ(statuses("127.0.0.1", {"a.test", "b.test"}), "200 200 ") << "without a name";
  serves.refuse_unknown_names = true;
  context.reload(serves);
  EXPECT_EQ(statuses("a.test", {"unknown.test", "also.test"}), "421 200 ");
}

}  // namespace
}  // namespace https_test
