// SPDX-License-Identifier: Apache-2.0
// Tests of the HTTP server over TLS.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/http/server.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_stream.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
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

// --- Clients that leave, or speak no TLS ---

task<> ask_and_leave(gyre::net::endpoint to, gyre::manual_reset_event& handled) {
  const auto context = tls_context::client(trusting());
  gyre::net::tcp_stream connected = co_await gyre::net::connect(to);
  auto shaking = gyre::tls::connect(std::move(connected), "localhost", context);
  gyre::tls::tls_stream secure = co_await std::move(shaking);
  co_await secure.write_all("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  co_await handled.wait();
  co_await secure.shutdown();  // close_notify
  const auto rest = co_await secure.receive();
  EXPECT_TRUE(rest.empty()) << rest.text();
}

TEST(Https, AHandlerIsAskedToStopByCloseNotify) {
  gyre::loop loop;
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(tls_context::server(serving()));
  gyre::http::server server(loop, any_port(), options);
  gyre::manual_reset_event handled;
  gyre::manual_reset_event never;
  bool stopped = false;
  server.get("/", [&](gyre::http::request&) -> task<gyre::http::response> {
    handled.set();
    try {
      co_await never.wait();
    } catch (const gyre::operation_cancelled&) {
      stopped = true;
      throw;
    }
    co_return gyre::http::status::ok;
  });
  server.start();
  gyre::sync_wait(loop, ask_and_leave(server.local_endpoint(), handled));
  EXPECT_TRUE(stopped);
}

constexpr std::string_view plain_requests[] = {
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    "DELETE /a HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * HTTP/1.0\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"};

void expect_refusal(std::string_view answer) {
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
  const std::string_view body = answer.substr(answer.find("\r\n\r\n") + 4);
  EXPECT_THAT(body, HasSubstr("https"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n"));
}

TEST(Https, APlainRequestIsToldThatThePortSpeaksTls) {
  gyre::loop loop;
  std::vector<std::error_code> errors;
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(
      tls_context::server(serving()), [&](const gyre::net::endpoint&, std::error_code why,
                                          std::string_view) { errors.push_back(why); });
  gyre::http::server server(loop, any_port(), options);
  server.start();
  for (const std::string_view request : plain_requests) {
    gyre::net::test::peer client(server.local_endpoint());
    client.send(request);
    EXPECT_TRUE(client.receive_end(loop)) << request;
    expect_refusal(client.text);
    EXPECT_EQ(errors.back(), gyre::tls::errc::plain_http) << request;
  }
}

TEST(Https, APlainRequestToACoroutineIsToldThatItSpeaksTls) {
  gyre::loop loop;
  for (const std::string_view request : plain_requests) {
    auto [one, other] = socket_pair(loop);
    ASSERT_EQ(::send(other.fd(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    const auto answer = [](gyre::net::tcp_stream accepted) -> task<std::error_code> {
      try {
        const auto context = tls_context::server(serving());
        auto accepting = gyre::tls::accept(std::move(accepted), context);
        co_await std::move(accepting);
      } catch (const std::system_error& error) {
        co_return error.code();
      }
      co_return std::error_code();
    };
    EXPECT_EQ(gyre::sync_wait(loop, answer(std::move(one))), gyre::tls::errc::plain_http);
    std::string text(4096, '\0');
    const ssize_t count = ::recv(other.fd(), text.data(), text.size(), 0);
    ASSERT_GT(count, 0);
    text.resize(static_cast<std::size_t>(count));
    expect_refusal(text);
  }
}

TEST(Https, OtherTextIsNoRequest) {
  gyre::loop loop;
  gyre::http::server_options options;
  options.tcp.transport = gyre::tls::server_transport(tls_context::server(serving()));
  gyre::http::server server(loop, any_port(), options);
  server.start();
  for (const std::string_view text :
       {"SSH-2.0-OpenSSH_9.2\r\n", "EHLO a.example\r\n", "GETAWAY\r\n"}) {
    gyre::net::test::peer client(server.local_endpoint());
    client.send(text);
    client.receive_end(loop);
    EXPECT_THAT(client.text, testing::Not(HasSubstr("HTTP"))) << text;
  }
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
