// SPDX-License-Identifier: Apache-2.0
// Tests of TLS over sockets whose system calls fail, or are counted.
#include <gyre/tls/tls_stream.hpp>

#include <gyre/io/input.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

namespace tls_socket_faults_test {
namespace {

using namespace gyre::tls::test;

// TCP's own limit of time is no limit of the handshake.
TEST(TlsSocketFaults, ATimeoutOfTheSocketIsToldAsItsOwn) {
  gyre::loop loop;
  auto [server_end, client_end] = socket_pair(loop);
  const auto context = gyre::tls::tls_context::client(trusting());
  ASSERT_EQ(::send(server_end.fd(), "x", 1, 0), 1);  // io_uring waits for bytes before the call
  std::error_code error;
  std::string text;
  const gyre::testing::fault silent("recv", ETIMEDOUT, {.times = -1});
  gyre::sync_wait(
      loop, catching(gyre::tls::connect(std::move(client_end), "localhost", context), error, text));
  EXPECT_EQ(error, std::error_code(ETIMEDOUT, std::system_category())) << text;
}

TEST(TlsSocketCalls, AServerWithCallbacksOnARingAsksEpollForNothing) {
  gyre::loop loop;
  if (std::string_view(loop.metrics().io) != "uring") GTEST_SKIP() << "only for io_uring";
  gyre::net::tcp_server_options options;
  options.transport = gyre::tls::server_transport(gyre::tls::tls_context::server(serving()));
  const gyre::net::endpoint any_port(gyre::net::ip_address::loopback_v4(), 0);
  gyre::net::tcp_server server(loop, any_port, options);
  server.on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
    from.send(in.bytes());
    in.consume_all();
  });
  server.start();
  const auto visit = [](gyre::net::endpoint at) -> gyre::task<> {
    auto connected = co_await gyre::net::connect(at);
    const auto context = gyre::tls::tls_context::client(trusting());
    auto secure = co_await gyre::tls::connect(std::move(connected), "localhost", context);
    co_await secure.write_all("hello");
    auto reply = co_await secure.receive();
    EXPECT_EQ(reply.text(), "hello");
  };
  gyre::sync_wait(loop, visit(server.local_endpoint()));
  const std::size_t before = gyre::testing::calls_made("epoll_ctl");
  gyre::sync_wait(loop, visit(server.local_endpoint()));
  EXPECT_EQ(gyre::testing::calls_made("epoll_ctl") - before, 0u);
}

}  // namespace
}  // namespace tls_socket_faults_test
