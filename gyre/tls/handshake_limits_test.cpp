// SPDX-License-Identifier: Apache-2.0
// Tests of many peers that begin handshakes, or say nothing at all.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/error.hpp>
#include <gyre/tls/tls_test_support.hpp>
#include <gyre/tls/transport.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace handshake_limits_test {
namespace {

using namespace std::chrono_literals;
using namespace gyre::tls::test;
using gyre::task;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;
using gyre::net::test::any_port;
using gyre::net::test::peer;
using gyre::net::test::settle;
using gyre::net::test::turn_until;
using gyre::tls::session;
using gyre::tls::tls_context;
using gyre::tls::tls_stream;
using gyre::tls::detail::engine;

/// A client's first message.
std::string hello() {
  gyre::io::buffer output;
  engine client(tls_context::client(trusting()), "localhost", session(), output);
  EXPECT_EQ(client.handshake(), engine::status::wants_input);
  return std::string(output.text());
}

/// Clients that have sent their first message.
class flood {
 public:
  static constexpr std::size_t size = 8;

  template <class Connect>
  explicit flood(Connect connect) {
    const std::string first = hello();
    for (std::size_t i = 0; i < size; ++i) peers_.emplace_back(connect()).send(first);
  }
  /// The number of clients that have got something.
  std::size_t answered() {
    for (peer& each : peers_) each.receive();
    return static_cast<std::size_t>(
        std::ranges::count_if(peers_, [](const peer& each) { return !each.text.empty(); }));
  }
  /// Turns the loop until all are answered, which must be one in each turn.
  void expect_one_in_each_turn(gyre::event_loop& loop) {
    for (std::size_t before = answered(); before < size;) {
      loop.run_once();
      const std::size_t after = answered();
      EXPECT_LE(after, before + 1);
      before = after;
    }
  }

 private:
  std::list<peer> peers_;
};

struct failed_handshakes {
  std::vector<std::error_code> codes;
  gyre::tls::handshake_failure_handler handler() {
    return [this](const gyre::net::endpoint&, std::error_code why, std::string_view) {
      codes.push_back(why);
    };
  }
};

tcp_server_options secure(failed_handshakes& failed) {
  tcp_server_options made;
  made.transport = gyre::tls::server_transport(tls_context::server(serving()), failed.handler());
  return made;
}

TEST(TlsHandshakeLimits, ATurnOfAServerTakesFewStepsOfHandshakes) {
  gyre::loop loop({.heavy_time = 0ns});  // one step in each turn
  failed_handshakes failed;
  tcp_server server(loop, any_port(), secure(failed));
  server.start();
  flood clients([&] { return peer(server.local_endpoint()); });
  clients.expect_one_in_each_turn(loop);
  EXPECT_TRUE(failed.codes.empty());
}

task<> accept_and_wait(gyre::net::tcp_stream accepted, tls_context context) {
  auto work = gyre::tls::accept(std::move(accepted), context);
  tls_stream made = co_await std::move(work);
}

TEST(TlsHandshakeLimits, ATurnOfCoroutinesTakesFewStepsOfHandshakes) {
  gyre::loop loop({.heavy_time = 0ns});
  const tls_context context = tls_context::server(serving());
  std::vector<std::future<void>> accepting;
  {
    flood clients([&] {
      gyre::test::fd_pair ends = gyre::test::unix_pair();
      accepting.push_back(gyre::spawn_future(
          loop, accept_and_wait(gyre::net::tcp_stream(loop, std::move(ends.first)), context)));
      return peer(gyre::net::socket(std::move(ends.second)));
    });
    clients.expect_one_in_each_turn(loop);
  }
  for (std::future<void>& each : accepting) {
    turn_until(loop, [&] { return each.wait_for(0s) == std::future_status::ready; });
    EXPECT_THROW(each.get(), std::system_error) << "the client has gone";
  }
}

/// A server with room for the handshakes of three clients that announce a short message.
class TlsHandshakeMemory : public testing::Test {
 protected:
  static constexpr std::size_t fitting = 3;

  TlsHandshakeMemory() { server_.start(); }
  tcp_server_options limited() {
    tcp_server_options options = secure(failed_);
    options.memory_limit = 2 * fitting * (std::size_t{45} << 10);
    return options;
  }
  peer connect(std::string_view first = {}) {
    peer made(server_.local_endpoint());
    if (!first.empty()) made.send(first);
    return made;
  }
  std::size_t accepted() const { return server_.metrics().accepted; }

  gyre::loop loop_;
  failed_handshakes failed_;
  tcp_server server_{loop_, any_port(), limited()};
};

TEST_F(TlsHandshakeMemory, SilentPeersDoNotCount) {
  std::vector<peer> silent;
  for (std::size_t i = 0; i < 10 * fitting; ++i) silent.push_back(connect());
  turn_until(loop_, [&] { return accepted() == silent.size(); });
  settle(loop_);
  EXPECT_TRUE(failed_.codes.empty());
}

TEST_F(TlsHandshakeMemory, HandshakesCountUntilTheyEnd) {
  const std::string first = hello();
  std::list<peer> begun;
  for (std::size_t i = 0; i < fitting; ++i) begun.push_back(connect(first));
  for (peer& each : begun) each.receive(loop_, 1);
  EXPECT_TRUE(failed_.codes.empty());

  peer refused = connect(first);
  turn_until(loop_, [&] { return !failed_.codes.empty(); });
  EXPECT_EQ(failed_.codes, std::vector{make_error_code(gyre::io::errc::memory_limit)});
  refused.receive(loop_, std::string::npos);
  EXPECT_TRUE(refused.ended);

  begun.pop_back();
  turn_until(loop_, [&] { return failed_.codes.size() == 2; });
  peer next = connect(first);
  next.receive(loop_, 1);
  EXPECT_FALSE(next.ended);
  EXPECT_EQ(failed_.codes.size(), 2u);
}

// Nine bytes have OpenSSL make room for 128 KiB.
TEST_F(TlsHandshakeMemory, AnAnnouncedMessageCounts) {
  const std::string announcing("\x16\x03\x01\x00\x04\x01\x01\xff\x00", 9);
  const peer first = connect(announcing);
  turn_until(loop_, [&] { return failed_.codes.size() == 1; });
  EXPECT_EQ(failed_.codes.front(), gyre::io::errc::memory_limit);
}

}  // namespace
}  // namespace handshake_limits_test
