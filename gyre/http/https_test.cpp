// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP server over TLS.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace https_test
