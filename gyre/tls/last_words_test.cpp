// SPDX-License-Identifier: Apache-2.0
// Tests of peers that refuse and go: the alert says why, though sending has failed before it is
// read. In TLS 1.3 a client's handshake is done before the server judges its certificate.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>
#include <tests/support/in_virtual_time.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>

namespace last_words_test {
namespace {

using namespace gyre::tls::test;
using gyre::task;
using gyre::net::tcp_client;
using gyre::net::tcp_connection;
using gyre::net::test::peer;
using gyre::net::test::settle;
using gyre::net::test::turn_until;
using gyre::tls::errc;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;
using gyre::tls::detail::engine;

/// A server driven by hand, which demands a certificate.
class strict_server {
 public:
  explicit strict_server(gyre::net::socket accepted) : peer_(std::move(accepted)) {}

  /// Sends what a client that has begun needs for its handshake; false before it has begun.
  bool greet() {
    shake_hands();
    if (output_.empty()) return false;
    send();
    return true;
  }
  /// Refuses a client without a certificate, and leaves with a reset; its bytes stay unread.
  void refuse_and_go() {
    while (shake_hands() != engine::status::failed) wait(POLLIN);
    EXPECT_EQ(machine_.why().code, errc::certificate_missing);
    send();
    peer_.reset();
  }

 private:
  engine::status shake_hands() {
    peer_.receive();
    machine_.feed(std::as_bytes(std::span(peer_.text)));
    const engine::status now = machine_.handshake();
    peer_.text.clear();
    return now;
  }
  void send() {
    peer_.send(output_.text());
    output_.consume_all();
  }
  void wait(short events) const {
    pollfd waiting{peer_.fd(), events, 0};
    EXPECT_EQ(::poll(&waiting, 1, -1), 1);
  }

  peer peer_;
  gyre::io::buffer output_;
  engine machine_{tls_context::server(requiring_certificates()), "", session(), output_};
};

void wait_for_hang_up(int fd) {
  pollfd waiting{fd, 0, 0};
  EXPECT_EQ(::poll(&waiting, 1, -1), 1);
}

// --- Callbacks ---

/// A listening socket, and a client whose on_connection refuses and sends.
class LastWordsOfCallbacks : public testing::TestWithParam<bool> {};

TEST_P(LastWordsOfCallbacks, ARefusalIsToldThoughSendingFailsFirst) {
  const bool is_paused = GetParam();
  gyre::loop loop;
  const auto [listening, address] = gyre::test::loopback_listener();
  std::optional<strict_server> server;
  gyre::net::tcp_client_options options{.reconnect = false};
  options.transport = gyre::tls::client_transport(tls_context::client(trusting()), "localhost");
  tcp_client client(loop, options);
  std::optional<std::error_code> end;
  client.on_connection([&](tcp_connection& begun) {
    if (is_paused) begun.pause_reading();
    server->refuse_and_go();
    wait_for_hang_up(begun.fd());
    EXPECT_FALSE(begun.send("request"));
  });
  client.on_close([&](tcp_connection&, std::error_code why) { end = why; });
  client.on_connect_failed([](std::error_code why, std::size_t, bool) { ADD_FAILURE() << why; });
  client.connect(
      gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), ntohs(address.sin_port)));
  turn_until(loop, [&] {
    if (!server) {
      gyre::unique_fd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK));
      if (accepted.get() >= 0) server.emplace(gyre::net::socket(std::move(accepted)));
    }
    return server && server->greet();
  });
  turn_until(loop, [&] { return end.has_value(); });
  EXPECT_EQ(*end, errc::refused_by_peer) << end->message();
}

INSTANTIATE_TEST_SUITE_P(, LastWordsOfCallbacks, testing::Bool());

// --- Coroutines ---

task<> connect_to(tls_stream& made, gyre::net::tcp_stream connected) {
  const tls_context context = tls_context::client(trusting());
  auto work = gyre::tls::connect(std::move(connected), "localhost", context);
  made = co_await std::move(work);
}

task<std::size_t> read_one(tls_stream& from) {
  std::byte one[1];
  const std::size_t count = co_await from.read_some(one);
  co_return count;
}

/// A stream that the server refuses.
class LastWords : public testing::Test {
 protected:
  LastWords() : LastWords(gyre::test::tcp_pair()) {}

  void refuse() {
    server_.refuse_and_go();
    wait_for_hang_up(client_.fd());
  }
  template <class T>
  std::error_code result_of(std::future<T>& of) {
    turn_until(loop_,
               [&] { return of.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
    return gyre::test::error_of([&of] { of.get(); });
  }

  gyre::loop loop_;
  strict_server server_;
  tls_stream client_;

 private:
  explicit LastWords(gyre::test::fd_pair sockets)
      : server_(gyre::net::socket(std::move(sockets.first))) {
    gyre::spawn(loop_,
                connect_to(client_, gyre::net::tcp_stream(loop_, std::move(sockets.second))));
    turn_until(loop_, [&] { return server_.greet(); });
    turn_until(loop_, [&] { return client_.is_open(); });
  }
};

TEST_F(LastWords, AWriteThatFailsTellsTheRefusal) {
  refuse();
  auto written = gyre::spawn_future(loop_, client_.write_all("request"));
  EXPECT_EQ(result_of(written), errc::refused_by_peer);
  auto again = gyre::spawn_future(loop_, client_.write_all("request"));
  EXPECT_EQ(result_of(again), errc::refused_by_peer);
  auto come = gyre::spawn_future(loop_, read_one(client_));
  EXPECT_EQ(result_of(come), errc::refused_by_peer);
}

TEST_F(LastWords, AWriteLeavesTheRefusalToTheOneWhoReads) {
  auto come = gyre::spawn_future(loop_, read_one(client_));
  settle(loop_);
  refuse();
  auto written = gyre::spawn_future(loop_, client_.write_all("request"));
  EXPECT_EQ(result_of(written), errc::refused_by_peer);
  EXPECT_EQ(result_of(come), errc::refused_by_peer);
}

TEST_F(LastWords, AShutdownTellsTheRefusal) {
  refuse();
  auto ended = gyre::spawn_future(loop_, client_.shutdown());
  EXPECT_EQ(result_of(ended), errc::refused_by_peer);
}

}  // namespace
}  // namespace last_words_test
