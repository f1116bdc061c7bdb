// SPDX-License-Identifier: Apache-2.0
// Tests of connecting by name with slow name servers. Only the time limit under test ever passes:
// the other limits are hours.
#include <gyre/net/connect.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/testing/fake_dns_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <fstream>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace connect_host_test {

using namespace std::chrono_literals;
using gyre::net::endpoint;
using gyre::net::ip_address;

const ip_address v4 = ip_address::loopback_v4();
const ip_address v6 = ip_address::loopback_v6();

class ConnectByName : public testing::Test {
 protected:
  ConnectByName() { server_["host.test"] = {.addresses = {v4, v6}}; }

  void listen_on(const ip_address& address, std::uint16_t port = 0) {
    listener_.emplace(loop_, endpoint(address, port));
  }
  // Listens on both addresses, at a port that is free on both: a port chosen on one address may be
  // in use on the other, for example by a connection that has just ended.
  gyre::net::tcp_listener listen_on_both() {
    for (;;) {
      listen_on(v6);
      try {
        return {loop_, {v4, listener_->local_endpoint().port()}};
      } catch (const std::system_error& error) {
        if (error.code() != std::errc::address_in_use) throw;
      }
    }
  }
  // Connects to the listener's port.
  void begin(gyre::net::race_options options) {
    auto connecting = [](ConnectByName& test, gyre::net::race_options how) -> gyre::task<endpoint> {
      auto made = co_await gyre::net::connect(
          test.names_, "host.test", test.listener_->local_endpoint().port(), std::move(how));
      co_return made.peer_endpoint();
    };
    made_ = gyre::spawn_future(loop_, gyre::as_expected(connecting(*this, std::move(options))));
  }
  void run_until_held(std::size_t count) {
    while (server_.held() < count) loop_.run_once();
    while (loop_.poll()) {
    }
  }
  bool connected() const { return made_.wait_for(0s) == std::future_status::ready; }
  std::expected<endpoint, std::error_code> connection() {
    while (!connected()) loop_.run_once();
    return made_.get();
  }
  static bool has_ipv6() {
    gyre::loop loop;
    return gyre::sync_wait(loop, [](gyre::event_loop& on) -> gyre::task<bool> {
      try {
        const gyre::net::tcp_listener listener(on, {v6, 0});
        co_return true;
      } catch (const std::system_error&) {
        co_return false;
      }
    }(loop));
  }

  gyre::loop loop_;
  gyre::testing::fake_dns_server server_{loop_};
  gyre::net::resolver names_{loop_,
                             {.servers = {server_.local_endpoint()},
                              .timeout = 1h,
                              .hosts_file = {},
                              .search_domains = std::vector<std::string>{}}};
  std::optional<gyre::net::tcp_listener> listener_;
  std::future<std::expected<endpoint, std::error_code>> made_;
};

TEST_F(ConnectByName, DoesNotWaitForAServerThatIsSilentAboutIPv6) {
  listen_on(v4);
  server_.hold("AAAA ");
  begin({.attempt_delay = 1h, .resolution_delay = 1ms});
  EXPECT_EQ(connection(), listener_->local_endpoint());
  EXPECT_EQ(server_.held(), 1u) << "nothing was said of IPv6";
  EXPECT_EQ(names_.pending(), 0u);
}

TEST_F(ConnectByName, DoesNotWaitAtAllForAServerThatIsSilentAboutIPv4) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  listen_on(v6);
  server_.hold("A ");
  begin({.attempt_delay = 1h, .resolution_delay = 1h});
  EXPECT_EQ(connection(), listener_->local_endpoint());
  EXPECT_EQ(server_.held(), 1u) << "nothing was said of IPv4";
}

TEST_F(ConnectByName, PrefersIPv6ThatIsKnownWithinTheDelay) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  const gyre::net::tcp_listener also = listen_on_both();
  server_.hold("AAAA ");
  begin({.attempt_delay = 1h, .resolution_delay = 1h});
  run_until_held(1);
  EXPECT_FALSE(connected());
  server_.release();
  EXPECT_EQ(connection(), listener_->local_endpoint());
}

TEST_F(ConnectByName, DelayEndsWhenThereIsNoIPv6) {
  listen_on(v4);
  server_["host.test"] = {.addresses = {v4}};
  server_.hold("AAAA ");
  begin({.attempt_delay = 1h, .resolution_delay = 1h});
  run_until_held(1);
  EXPECT_FALSE(connected());
  server_.release();
  EXPECT_EQ(connection(), listener_->local_endpoint());
}

TEST_F(ConnectByName, AddressesThatComeLateJoinIn) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  listen_on(v6);
  server_.hold("AAAA ");
  begin({.attempt_delay = 1h, .resolution_delay = 0s});
  run_until_held(1);
  EXPECT_FALSE(connected()) << "IPv4 refuses";
  server_.release();
  EXPECT_EQ(connection(), listener_->local_endpoint());
}

TEST_F(ConnectByName, SaysWhyThereIsNoAddress) {
  listen_on(v4);
  server_["host.test"] = {.reply = gyre::testing::fake_dns_server::reply_kind::refused};
  begin({});
  EXPECT_EQ(connection().error(), gyre::net::resolve_errc::refused);
}

// The lookups end on one thread, the attempts on another, and a third one stops both.
TEST_F(ConnectByName, ANegativeDelayIsRefusedEvenWithoutALookup) {
  listen_on(v4);
  const gyre::net::host_port server = listener_->local_endpoint();
  for (const gyre::net::race_options& options :
       {gyre::net::race_options{.attempt_delay = -1ms},
        gyre::net::race_options{.resolution_delay = -1ms}}) {
    EXPECT_THROW(gyre::sync_wait(loop_, gyre::net::connect(server, options)),
                 std::invalid_argument);
  }
}

TEST(ConnectByNameOfAnotherLoop, MayBeStoppedAtAnyTime) {
  const std::string hosts = testing::TempDir() + "gyre-connect-hosts-" + std::to_string(::getpid());
  std::ofstream(hosts) << "127.0.0.2 served.test\n127.0.0.1 served.test\n";
  gyre::loop_thread elsewhere;
  std::optional<gyre::net::resolver> names;
  const auto there = [&](auto function) {
    std::promise<void> done;
    elsewhere.loop().post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  };
  there([&] {
    names.emplace(elsewhere.loop(),
                  gyre::net::resolver_options{.order = gyre::net::lookup_order::hosts_only,
                                              .hosts_file = hosts});
  });
  gyre::loop loop;
  gyre::net::tcp_listener listener(loop, {v4, 0});
  const std::uint16_t port = listener.local_endpoint().port();
  int connected = 0;
  for (int round = 0; round < 300; ++round) {
    gyre::inplace_stop_source stop;
    auto made = gyre::spawn_future(
        loop,
        gyre::as_expected(gyre::net::connect(*names, "served.test", port, {.attempt_delay = 0s})),
        stop.get_token());
    std::jthread stopper([&stop, round] {
      for (int i = 0; i < round % 30; ++i) std::this_thread::yield();
      if (round % 10 != 0) stop.request_stop();
    });
    while (made.wait_for(0s) != std::future_status::ready) loop.run_for(100us);
    stopper.join();
    try {
      const auto result = made.get();
      ASSERT_TRUE(result.has_value()) << result.error().message();
      EXPECT_EQ(result->peer_endpoint(), listener.local_endpoint());
      ++connected;
    } catch (const std::system_error& error) {
      ASSERT_EQ(error.code(), std::errc::operation_canceled);
    }
  }
  EXPECT_GE(connected, 30) << "those that nobody stopped";
  there([&] { names.reset(); });
}

}  // namespace connect_host_test
