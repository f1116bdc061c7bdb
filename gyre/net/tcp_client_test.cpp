// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_client.hpp>

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/detail/client_commands.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/testing/fake_dns_server.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tcp_client_test {
namespace {

using namespace gyre::net::test;
using gyre::io::input;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::socket;
using gyre::net::socket_type;
using gyre::net::tcp_client;
using gyre::net::tcp_client_options;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;

// A port without a listener.
endpoint nobody() {
  const socket bound = socket::open(gyre::net::address_family::ipv4, socket_type::stream);
  bound.bind(any_port());
  return bound.local_endpoint();
}

// An address of this host that the tests of other processes do not use, so that its ports are free.
ip_address own_address(std::uint8_t number) {
  const auto process = static_cast<unsigned>(::getpid());
  return ip_address::v4(127, static_cast<std::uint8_t>(1 + process / 250 % 250),
                        static_cast<std::uint8_t>(1 + process % 250), number);
}

class TcpClient : public testing::Test {
 protected:
  void SetUp() override {
    server.emplace(loop);
    server->on_message([this](tcp_connection& c, input& in) {
      heard += in.text();
      c.send(in.bytes());
      in.consume_all();
    });
    server->listen(any_port());
    server->start();
  }
  tcp_client& make(tcp_client_options how = {}) {
    client.emplace(loop, std::move(how));
    client->on_connection([this](tcp_connection&) { ++ups; })
        .on_message([this](tcp_connection&, input& in) {
          echoed += in.text();
          in.consume_all();
        })
        .on_close([this](tcp_connection&, std::error_code why) { ends.push_back(why); })
        .on_connect_failed([this](std::error_code why, std::size_t, bool last) {
          failures.push_back(why);
          gave_up = last;
        });
    return *client;
  }
  void idle() {
    for (int i = 0; i < 10; ++i) loop.run_for(200us);
  }

  int thrown = 0;
  // A batch stays whole, however long it takes.
  gyre::loop loop{gyre::loop_options{.batch_time = 1h,
                                     .on_exception = [this](std::exception_ptr) { ++thrown; }}};
  std::optional<tcp_server> server;
  std::optional<tcp_client> client;
  std::string heard, echoed;
  int ups = 0;
  bool gave_up = false;
  std::vector<std::error_code> ends, failures;
};

TEST_F(TcpClient, ConnectsSendsAndDisconnects) {
  make({.name = "me"}).connect(server->local_endpoint());
  EXPECT_EQ(client->name(), "me");
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_TRUE(client->connected());
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint());
  // On the loop's thread send() returns whether it accepted the bytes.
  loop.post([&] { EXPECT_TRUE(client->send("hello")); });
  turn_until(loop, [&] { return echoed == "hello"; });
  client->disconnect();
  client->disconnect();
  turn_until(loop, [&] { return !ends.empty(); });
  client->disconnect();
  idle();
  EXPECT_THAT(ends, testing::ElementsAre(std::error_code()));
  EXPECT_FALSE(client->connected());
  EXPECT_EQ(client->connection(), nullptr);
  EXPECT_EQ(client->metrics().traffic.bytes_received, 5u);
  loop.post([&] { EXPECT_FALSE(client->send("nobody")); });
  settle(loop);
  client->connect(server->local_endpoint());  // and again
  turn_until(loop, [&] { return ups == 2; });
}

TEST_F(TcpClient, ConnectsWithinTheMachine) {
  server->listen(endpoint::unix_abstract("gyre-tcp-client-test-" + std::to_string(::getpid())));
  make().connect(server->local_endpoint(1));
  turn_until(loop, [&] { return ups == 1; });
  make().connect(
      endpoint::unix_abstract("gyre-tcp-client-test-nobody-" + std::to_string(::getpid())));
  turn_until(loop, [&] { return gave_up; });
  EXPECT_THAT(failures, testing::ElementsAre(std::errc::connection_refused));
}

TEST(TcpClientInVirtualTime, KeepsAnIdleConnectionByDefault) {
  gyre::test::io_in_virtual_time virtual_time;
  tcp_server server(virtual_time.loop, {.connections = {.idle_timeout = 0s}});
  server.listen(any_port());
  server.start();
  tcp_client client(virtual_time.loop);
  client.connect(server.local_endpoint());
  virtual_time.turn_until([&] { return client.connected(); });
  for (int hours = 0; hours < 100; ++hours) {
    virtual_time.advance(1h);
    virtual_time.settle();
  }
  EXPECT_TRUE(client.connected());
}

TEST(TcpClientInVirtualTime, WaitsLongerAfterEachRefusal) {
  constexpr std::uint64_t seed = 3;
  gyre::test::io_in_virtual_time virtual_time;
  tcp_server server(virtual_time.loop);
  server.on_connection([](tcp_connection& refused) {
    refused.send("not yet");
    refused.close();
  });
  server.listen(any_port());
  server.start();
  tcp_client client(virtual_time.loop, {.connect_timeout = 1000h,
                                        .reconnect = true,
                                        .initial_delay = 1h,
                                        .longest_delay = 64h,
                                        .seed = seed});
  std::size_t refusals = 0;
  std::size_t ends = 0;
  client.on_message([&](tcp_connection&, input& in) {
    in.consume_all();
    ++refusals;
    client.note_refusal();
  });
  client.on_close([&](tcp_connection&, std::error_code) { ++ends; });
  client.connect(server.local_endpoint());

  gyre::detail::splitmix64 random(seed);
  const gyre::exponential_backoff backoff{.initial = 1h, .longest = 64h};
  for (std::size_t retry = 1; retry <= 10; ++retry) {
    virtual_time.turn_until([&] { return ends == retry; });
    const auto delay = backoff.jittered_delay(retry, random);
    virtual_time.advance(delay - 1s);
    virtual_time.settle();
    EXPECT_EQ(client.metrics().attempts, retry);
    virtual_time.advance(2s);
  }
  virtual_time.turn_until([&] { return ends == 11; });
  EXPECT_EQ(refusals, 11u);
}

TEST_F(TcpClient, TriesOnceUnlessItIsToReconnect) {
  make().connect(nobody());
  EXPECT_TRUE(failures.empty()) << "not within connect()";
  turn_until(loop, [&] { return gave_up; });
  idle();
  EXPECT_THAT(failures, testing::ElementsAre(std::errc::connection_refused));
  EXPECT_EQ(client->metrics().attempts, 1u);
  client->connect(server->local_endpoint());
  turn_until(loop, [&] { return ups == 1; });
}

TEST_F(TcpClient, BacksOffAndGivesUp) {
  const auto times = [this](std::uint64_t seed) {
    std::vector<gyre::steady_time> tried;
    failures.clear();
    gave_up = false;
    make({.reconnect = true,
          .initial_delay = 1ms,
          .longest_delay = 4ms,
          .max_attempts = 6,
          .seed = seed})
        .connect(nobody());
    turn_until(loop, [&] { return gave_up; });
    idle();
    return client->metrics();
  };
  for (const std::uint64_t seed : {1u, 2u}) {
    EXPECT_EQ(times(seed).attempts, 6u);
    EXPECT_EQ(failures.size(), 6u);
  }
}

TEST_F(TcpClient, ConnectsAgainWhenTheConnectionIsLost) {
  make({.reconnect = true, .initial_delay = 1ms}).connect(server->local_endpoint());
  for (int i = 1; i <= 3; ++i) {
    turn_until(loop, [&] { return ups == i && server->metrics().connections == 1; });
    server->for_each([](tcp_connection& c) { c.abort(); });
    turn_until(loop, [&] { return ends.size() == static_cast<std::size_t>(i); });
    EXPECT_EQ(ends.back(), std::errc::connection_reset);
  }
  turn_until(loop, [&] { return ups == 4; });
  client->disconnect();
  turn_until(loop, [&] { return ends.size() == 4; });
  idle();
  EXPECT_EQ(ups, 4);
}

TEST_F(TcpClient, ConnectsAgainAfterACloseOfItsOwnConnection) {
  make({.reconnect = true, .initial_delay = 1ms}).connect(server->local_endpoint());
  for (int i = 1; i <= 3; ++i) {
    turn_until(loop, [&] { return ups == i; });
    loop.post([&] { client->connection()->close(); });
    turn_until(loop, [&] { return ends.size() == static_cast<std::size_t>(i); });
    EXPECT_EQ(ends.back(), std::error_code());
  }
  turn_until(loop, [&] { return ups == 4; });
}

TEST_F(TcpClient, FindsAServerThatComesLater) {
  const endpoint place = nobody();
  make({.reconnect = true, .initial_delay = 1ms, .longest_delay = 2ms}).connect(place);
  turn_until(loop, [&] { return failures.size() >= 3; });
  server->listen(place);
  turn_until(loop, [&] { return ups == 1; });
}

TEST_F(TcpClient, TriesAgainWhateverItsFunctionsThrow) {
  const endpoint place = nobody();
  make({.reconnect = true, .initial_delay = 1ms, .longest_delay = 2ms})
      .on_connect_failed([&](std::error_code why, std::size_t, bool) {
        failures.push_back(why);
        throw std::runtime_error("failed");
      })
      .on_connection([&](tcp_connection& c) {
        if (++ups == 1) throw std::runtime_error("connected");
        if (ups == 2) c.close();
      })
      .on_close([&](tcp_connection&, std::error_code why) {
        ends.push_back(why);
        throw std::runtime_error("closed");
      });
  client->connect(place);
  turn_until(loop, [&] { return failures.size() >= 3; });
  server->listen(place);
  turn_until(loop, [&] { return ups == 3; });
  EXPECT_EQ(ends.size(), 2u);
  EXPECT_EQ(thrown, static_cast<int>(failures.size()) + 3);
  EXPECT_TRUE(client->connected());
}

TEST_F(TcpClient, MayBeDisconnectedOrDestroyedByAFunctionThatThrows) {
  for (const bool destroy : {false, true}) {
    failures.clear();
    make({.reconnect = true, .initial_delay = 1ms})
        .on_connect_failed([&, destroy](std::error_code why, std::size_t, bool) {
          failures.push_back(why);
          if (destroy) {
            client.reset();
          } else {
            client->disconnect();
          }
          throw std::runtime_error("failed");
        });
    client->connect(nobody());
    turn_until(loop, [&] { return !failures.empty(); });
    idle();
    EXPECT_EQ(failures.size(), 1u);
  }
  EXPECT_EQ(thrown, 2);
}

TEST_F(TcpClient, TakesItsFunctionsBeforeItConnects) {
  make().connect(server->local_endpoint());
  EXPECT_THROW(client->on_connection([](tcp_connection&) {}), std::logic_error);
  EXPECT_THROW(client->on_message([](tcp_connection&, input&) {}), std::logic_error);
  EXPECT_THROW(client->on_connect_failed({}), std::logic_error);
  turn_until(loop, [&] { return ups == 1; });
}

TEST_F(TcpClient, RefusesOptionsThatMakeNoSense) {
  for (const tcp_client_options& how :
       {tcp_client_options{.connect_timeout = -1s}, tcp_client_options{.connect_timeout = 0s},
        tcp_client_options{.initial_delay = -1ns}, tcp_client_options{.longest_delay = -1ns},
        tcp_client_options{.attempt_delay = -1ns}, tcp_client_options{.max_attempts = 0},
        tcp_client_options{.connections = {.receive_size = 0}},
        tcp_client_options{.connections = {.idle_timeout = -1ns}},
        tcp_client_options{.connections = {.close_timeout = -1ns}}}) {
    EXPECT_THROW(tcp_client(loop, how), std::invalid_argument);
  }
}

TEST_F(TcpClient, PrintsThatItCannotConnectUnlessItIsToTell) {
  const endpoint place = nobody();
  client.emplace(loop, tcp_client_options{.name = "mute",
                                          .reconnect = true,
                                          .initial_delay = 1ms,
                                          .longest_delay = 1ms,
                                          .max_attempts = 3});
  testing::internal::CaptureStderr();
  client->connect(place);
  turn_until(loop, [&] { return client->metrics().failures == 3; });
  const std::string line = "gyre: mute: connect " + place.to_string() + ": Connection refused\n";
  EXPECT_EQ(testing::internal::GetCapturedStderr(), line + line) << "the first and the last";
  client.emplace(loop);
  client->on_connect_failed({});
  testing::internal::CaptureStderr();
  client->connect(place);
  turn_until(loop, [&] { return client->metrics().failures == 1; });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(TcpClient, ConnectingTakesNoLongerThanItsTimeout) {
  // A full accept queue: the kernel drops new connections.
  const socket full = socket::open(gyre::net::address_family::ipv4, socket_type::stream);
  full.bind(any_port());
  full.listen(0);
  std::vector<socket> queued;
  for (int i = 0; i < 3; ++i) {
    queued.push_back(socket::open(gyre::net::address_family::ipv4, socket_type::stream));
    static_cast<void>(queued.back().connect(full.local_endpoint()));
  }
  make({.connect_timeout = 10ms}).connect(full.local_endpoint());
  turn_until(loop, [&] { return gave_up; });
  EXPECT_THAT(failures, testing::ElementsAre(std::errc::timed_out));
  EXPECT_EQ(failures[0], gyre::io::errc::connect_timeout);
}

TEST_F(TcpClient, KeepsWhatIsSentMeanwhileWithinItsLimit) {
  make({.keep_limit = 10});
  loop.post([&] {
    EXPECT_TRUE(client->send("12345"));
    EXPECT_FALSE(client->send("123456"));
    EXPECT_TRUE(client->send("67890"));
    client->connect(server->local_endpoint());
  });
  client->on_connection([&](tcp_connection& c) { c.send("x"); });
  turn_until(loop, [&] { return echoed.size() == 11; });
  EXPECT_EQ(heard, "1234567890x");
}

TEST_F(TcpClient, FindsTheServerByItsName) {
  // No server is at the first of its addresses.
  server->listen({ip_address::v4(127, 0, 0, 2), 0});
  const std::string hosts = testing::TempDir() + "gyre-hosts-" + std::to_string(::getpid());
  std::ofstream(hosts) << "127.0.0.3 served.test\n127.0.0.2 served.test\n";
  gyre::net::resolver names(loop,
                            {.order = gyre::net::lookup_order::hosts_only, .hosts_file = hosts});
  const gyre::net::service port = server->local_endpoint(1).port();
  make({.reconnect = true, .initial_delay = 1ms}).connect(names, "served.test", port);
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint(1));
  client->connect(names, "served.test", port);
  EXPECT_TRUE(client->connected()) << "it is there already";
  server->for_each([](tcp_connection& c) { c.abort(); });
  turn_until(loop, [&] { return ups == 2; });
  make().connect(names, "nowhere.test", port);
  client->disconnect();
  client->connect(names, "nowhere.test", port);
  turn_until(loop, [&] { return gave_up; });
  EXPECT_EQ(failures.size(), 1u);
  client.reset();
}

// Only the time limit under test ever passes: the other limits are hours.
class TcpClientOfAHost : public TcpClient {
 protected:
  // Connects by name to the server's port.
  void connect(std::chrono::nanoseconds resolution_delay) {
    make({.connect_timeout = 1h, .resolution_delay = resolution_delay});
    client->connect(names, "host.test", server->local_endpoint().port());
  }
  void run_until_held() {
    turn_until(loop, [&] { return name_server.held() == 1; });
    settle(loop);
  }
  static constexpr ip_address v4 = ip_address::loopback_v4();
  static constexpr ip_address v6 = ip_address::loopback_v6();

  gyre::testing::fake_dns_server name_server{loop};
  gyre::net::resolver names{loop,
                            {.servers = {name_server.local_endpoint()},
                             .timeout = 1h,
                             .hosts_file = {},
                             .search_domains = std::vector<std::string>{}}};
};

TEST_F(TcpClientOfAHost, DoesNotWaitForAServerThatIsSilentAboutIPv6) {
  name_server["host.test"] = {.addresses = {v4, v6}};
  name_server.hold("AAAA ");
  connect(1ms);
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint());
  EXPECT_EQ(name_server.held(), 1u) << "nothing was said of IPv6";
  EXPECT_EQ(names.pending(), 0u);
}

TEST_F(TcpClientOfAHost, WaitsForThePreferredVersionWithinTheDelay) {
  name_server["host.test"] = {.addresses = {v4}};
  name_server.hold("AAAA ");
  connect(1h);
  run_until_held();
  EXPECT_EQ(client->metrics().attempts, 1u);
  EXPECT_EQ(ups, 0);
  name_server.release();
  turn_until(loop, [&] { return ups == 1; });
}

TEST_F(TcpClientOfAHost, TriesAddressesThatComeLate) {
  name_server["host.test"] = {.addresses = {ip_address::v4(127, 0, 0, 3), v4}};
  name_server.hold("A ");
  name_server["host.test"].addresses.push_back(v6);  // without a listener, or without IPv6
  connect(1h);
  run_until_held();
  EXPECT_EQ(ups, 0);
  EXPECT_TRUE(failures.empty()) << "others may come";
  name_server.release();
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint());
  EXPECT_EQ(client->metrics().attempts, 1u);
}

TEST_F(TcpClientOfAHost, SaysOnceWhyNoAddressAnswers) {
  name_server["host.test"] = {.addresses = {ip_address::v4(127, 0, 0, 3)}};
  name_server.hold("AAAA ");
  connect(0s);
  run_until_held();
  EXPECT_TRUE(failures.empty()) << "others may come";
  name_server.release();
  turn_until(loop, [&] { return gave_up; });
  EXPECT_THAT(failures, testing::ElementsAre(std::errc::connection_refused));
}

TEST_F(TcpClientOfAHost, MayBeDisconnectedOrDestroyedBetweenTheAddresses) {
  name_server["host.test"] = {.addresses = {ip_address::v4(127, 0, 0, 3)}};
  for (const bool destroy : {false, true}) {
    name_server.hold("AAAA ");
    connect(destroy ? 1h : 0s);
    run_until_held();
    if (destroy) {
      client.reset();
    } else {
      client->disconnect();
    }
    name_server.release();
    settle(loop);
    EXPECT_EQ(names.pending(), 0u);
    EXPECT_TRUE(failures.empty());
    names.clear_cache();
  }
}

// A listener whose accept queue is full: the kernel drops new connections.
class silent_listener {
 public:
  explicit silent_listener(const endpoint& local) {
    listening_.set_reuse_address(true);  // of another test, which has closed it
    listening_.bind(local);
    listening_.listen(0);
    for (socket& each : queued_) static_cast<void>(each.connect(listening_.local_endpoint()));
  }

 private:
  static socket opened() {
    return socket::open(gyre::net::address_family::ipv4, socket_type::stream);
  }
  socket listening_ = opened();
  std::array<socket, 3> queued_{opened(), opened(), opened()};
};

TEST_F(TcpClientOfAHost, TriesTheNextAddressBesideASilentOne) {
  const endpoint silent(own_address(2), server->local_endpoint().port());
  const silent_listener listener(silent);
  name_server["host.test"] = {.addresses = {silent.address(), v4}};
  make({.connect_timeout = 1h, .attempt_delay = 1ms});
  client->connect(names, "host.test", silent.port());
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint());
  EXPECT_EQ(client->metrics().attempts, 1u);
  EXPECT_TRUE(failures.empty());
}

TEST_F(TcpClientOfAHost, GivesUpOnceAllAddressesAreSilent) {
  const std::uint16_t port = server->local_endpoint().port();
  const endpoint one(own_address(2), port);
  const endpoint other(own_address(3), port);
  const silent_listener at_one(one);
  const silent_listener at_other(other);
  name_server["host.test"] = {.addresses = {one.address(), other.address()}};
  make({.connect_timeout = 10ms, .attempt_delay = 1ms});
  client->connect(names, "host.test", port);
  turn_until(loop, [&] { return gave_up; });
  EXPECT_THAT(failures, testing::ElementsAre(gyre::io::errc::connect_timeout));
}

// A protocol whose handshake is one byte of the server.
class greeted_layer final : public gyre::net::layer {
 public:
  greeted_layer() { is_established_ = false; }
  status handshake() override {
    if (unread().empty()) return status::wants_input;
    consume(1);
    is_established_ = true;
    return status::done;
  }
  gyre::duration handshake_timeout() const noexcept override { return 1h; }
  status read(std::span<std::byte>, std::size_t& count) override {
    count = 0;
    return status::wants_input;
  }
  status peek() override { return status::wants_input; }
  status write(std::span<const std::byte>) override { return status::done; }
};

class greeted_transport final : public gyre::net::transport {
 public:
  std::unique_ptr<gyre::net::layer> make_layer(std::string_view) const override {
    return std::make_unique<greeted_layer>();
  }
};

TEST_F(TcpClientOfAHost, TriesNoOtherAddressUnlessAHandshakeFails) {
  tcp_server mute(loop);
  mute.listen({own_address(2), server->local_endpoint().port()});
  mute.start();
  name_server["host.test"] = {.addresses = {own_address(2), v4}};
  make({.connect_timeout = 1h,
        .attempt_delay = 1ms,
        .transport = std::make_shared<greeted_transport>()});
  client->connect(names, "host.test", server->local_endpoint().port());
  turn_until(loop, [&] { return mute.metrics().connections == 1; });
  loop.run_for(20ms);
  EXPECT_EQ(server->metrics().connections, 0u) << "a handshake is under way";
  mute.for_each([](tcp_connection& c) { c.abort(); });
  turn_until(loop, [&] { return server->metrics().connections == 1; });
  EXPECT_EQ(ups, 0);
  server->for_each([](tcp_connection& c) { c.send("^"); });
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint());
  EXPECT_TRUE(failures.empty());
}

// Nothing may be left that the loop would have to end.
TEST(TcpClientAtItsEnd, LeavesNothingBehindWithItsLoop) {
  const std::string hosts = testing::TempDir() + "gyre-hosts-end-" + std::to_string(::getpid());
  std::ofstream(hosts) << own_address(2).to_string() << " served.test\n127.0.0.1 served.test\n";
  for (int turns = 0; turns < 12; ++turns) {
    std::optional<gyre::loop> loop(std::in_place);
    std::optional<tcp_server> server(std::in_place, *loop);
    server->listen(any_port());
    server->start();
    const endpoint silent(own_address(2), server->local_endpoint().port());
    const silent_listener listener(silent);
    std::optional<gyre::net::resolver> names(
        std::in_place, *loop,
        gyre::net::resolver_options{.order = gyre::net::lookup_order::hosts_only,
                                    .hosts_file = hosts});
    std::optional<tcp_client> client(std::in_place, *loop, tcp_client_options{.attempt_delay = 0s});
    client->connect(*names, "served.test", silent.port());
    for (int i = 0; i < turns; ++i) loop->poll();
    client.reset();
    names.reset();
    server.reset();
    loop.reset();
  }
}

// Pitfall: the kernel connects a socket to itself.
TEST_F(TcpClient, DoesNotTakeItselfForTheServer) {
  const endpoint own = nobody();
  make({.local = own}).connect(own);
  turn_until(loop, [&] { return gave_up; });
  EXPECT_THAT(failures, testing::ElementsAre(std::errc::connection_refused));
  EXPECT_EQ(ups, 0);
}

TEST_F(TcpClient, ReservesNoPortOfItsLocalAddress) {
  const ip_address own("127.0.0.2");
  server->listen(any_port());
  make({.local = {own, 0}}).connect(server->local_endpoint(0));
  turn_until(loop, [&] { return ups == 1; });
  EXPECT_TRUE(gyre::net::socket_ref(client->connection()->fd()).bind_address_no_port());
  EXPECT_EQ(client->connection()->local_endpoint().address(), own);
}

TEST_F(TcpClient, ChangesToAnotherServer) {
  server->listen(any_port());
  make().connect(server->local_endpoint(0));
  turn_until(loop, [&] { return ups == 1; });
  client->connect(server->local_endpoint(0));  // is connected to it already
  client->connect(server->local_endpoint(1));
  turn_until(loop, [&] { return ups == 2; });
  EXPECT_EQ(ends.size(), 1u);
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint(1));
}

// Pitfalls of connectors: disconnect inside the connected callback, second disconnect, descriptor
// closed twice.
TEST_F(TcpClient, MayDisconnectInTheConnectedCallback) {
  make({.reconnect = true, .initial_delay = 1ms}).on_connection([&](tcp_connection& c) {
    ++ups;
    c.send("bye");
    client->disconnect();
    client->disconnect();
  });
  client->connect(server->local_endpoint());
  turn_until(loop, [&] { return ends.size() == 1; });
  idle();
  EXPECT_EQ(ups, 1);
  EXPECT_EQ(heard, "bye");
}

TEST_F(TcpClient, MayDisconnectWhileItConnectsOrWaits) {
  make({.reconnect = true, .initial_delay = 1ms})
      .on_connect_failed([&](std::error_code why, std::size_t, bool) {
        failures.push_back(why);
        client->disconnect();
      });
  client->connect(server->local_endpoint());
  client->disconnect();
  idle();
  EXPECT_EQ(ups, 0);
  client->connect(nobody());
  turn_until(loop, [&] { return !failures.empty(); });
  idle();
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_TRUE(ends.empty());
}

TEST_F(TcpClient, MayConnectInItsCallbacks) {
  make().on_close([&](tcp_connection&, std::error_code) {
    if (ups < 3) client->connect(server->local_endpoint());
  });
  client->on_connection([&](tcp_connection& c) {
    ++ups;
    c.close();
  });
  client->on_connect_failed(
      [&](std::error_code, std::size_t, bool) { client->connect(server->local_endpoint()); });
  client->connect(nobody());
  turn_until(loop, [&] { return ups == 3; });
}

TEST_F(TcpClient, MayBeDestroyedInEveryCallback) {
  for (int which = 0; which < 4; ++which) {
    int called = 0;
    make({.reconnect = true, .initial_delay = 1ms})
        .on_connection([&](tcp_connection& c) {
          c.send("x");
          if (which == 1) c.close();
          if (which != 0) return;
          ++called;
          client.reset();
          EXPECT_FALSE(c.send("y")) << "still there, but closed";
        })
        .on_close([&](tcp_connection&, std::error_code) {
          ++called;
          client.reset();
        })
        .on_message([&](tcp_connection&, input& in) {
          if (which != 2) return;
          ++called;
          client.reset();
          EXPECT_EQ(in.text(), "x");
        })
        .on_connect_failed([&](std::error_code, std::size_t, bool) {
          ++called;
          client.reset();
        });
    client->connect(which == 3 ? nobody() : server->local_endpoint());
    turn_until(loop, [&] { return called > 0; });
    settle(loop);
    EXPECT_EQ(called, 1);
  }
}

TEST_F(TcpClient, MayBeDestroyedAtAnyTime) {
  make();
  make().connect(server->local_endpoint());
  make().connect(server->local_endpoint());
  loop.poll();
  make({.reconnect = true, .initial_delay = 1h}).connect(nobody());
  turn_until(loop, [&] { return !failures.empty(); });
  make().connect(server->local_endpoint());
  turn_until(loop, [&] { return ups == 1; });
}

// So many tasks wait in the loop's inbox that its timers fire before the client's end is processed.
TEST_F(TcpClient, DoesNotTryAgainBehindItsDestructor) {
  for (int turns = 0; turns < 4; ++turns) {
    auto names = std::make_unique<gyre::net::resolver>(
        loop, gyre::net::resolver_options{.order = gyre::net::lookup_order::hosts_only});
    make({.reconnect = true, .initial_delay = 0ns});
    client->connect(*names, "nowhere.test", gyre::net::service(1));
    turn_until(loop, [&] { return !failures.empty(); });
    for (int i = 0; i < turns; ++i) loop.poll();
    for (int i = 0; i < 5000; ++i) loop.post([] {});
    client.reset();
    names.reset();
    settle(loop);
    failures.clear();
  }
}

TEST_F(TcpClient, OtherThreadsSendNoFasterThanTheLoopTakesIt) {
  make({.connections = {.output_limit = 10'000}}).connect(server->local_endpoint());
  turn_until(loop, [&] { return ups == 1; });
  for (std::size_t round = 1; round <= 2; ++round) {
    EXPECT_TRUE(client->send(std::string(4'000, 'x')));
    EXPECT_FALSE(client->send(std::string(6'000, 'x')));
    EXPECT_TRUE(client->send(""));
    EXPECT_TRUE(client->send(std::string(3'000, 'x')));
    turn_until(loop, [&] { return echoed.size() == round * 7'000; });
    settle(loop);
  }
}

// This thread does not run the loop: another thread does.
TEST_F(TcpClient, OtherThreadsWishesDoNotPileUp) {
  server->listen(any_port());
  make({.reconnect = true});
  for (int i = 0; i < 1000; ++i) {
    client->connect(server->local_endpoint(0));
    client->disconnect();
    client->connect(server->local_endpoint(1));
  }
  EXPECT_LE(loop.metrics().tasks_pending, 3u);
  turn_until(loop, [&] { return ups == 1; });
  idle();
  EXPECT_EQ(client->connection()->peer_endpoint(), server->local_endpoint(1));
  EXPECT_EQ(client->metrics().attempts, 1u);
  for (int i = 0; i < 1000; ++i) client->disconnect();
  EXPECT_LE(loop.metrics().tasks_pending, 3u);
  turn_until(loop, [&] { return ends.size() == 1; });
  idle();
  EXPECT_EQ(ups, 1);
}

TEST_F(TcpClient, OtherThreadsCallsKeepTheirOrder) {
  make({.keep_limit = 1000}).connect(server->local_endpoint());
  client->send("dropped");
  client->disconnect();
  client->connect(server->local_endpoint());
  client->send("first ");
  turn_until(loop, [&] { return echoed == "first "; });
  client->connect(server->local_endpoint());  // is connected to it already
  client->send("second ");
  turn_until(loop, [&] { return echoed == "first second "; });
  EXPECT_EQ(ups, 1);
  client->disconnect();
  client->connect(server->local_endpoint());
  client->send("third");  // on the new one: the old one is closed
  turn_until(loop, [&] { return echoed == "first second third"; });
  EXPECT_EQ(ups, 2);
  EXPECT_EQ(heard, echoed);
}

TEST_F(TcpClient, OtherThreadsCallsAreAllHeardThoughTheyAreManyTurnsWorth) {
  make({.keep_limit = 1000});
  for (int i = 0; i < 300; ++i) client->send("x");
  client->connect(nobody());
  for (int i = 0; i < 300; ++i) client->send("y");
  client->connect(server->local_endpoint());
  turn_until(loop, [&] { return echoed.size() == 600; });
  EXPECT_EQ(echoed, std::string(300, 'x') + std::string(300, 'y'));
}

TEST_F(TcpClient, MayBeDestroyedWhileOtherThreadsCallsWait) {
  make({.keep_limit = 1000}).connect(server->local_endpoint());
  for (int i = 0; i < 300; ++i) client->send("x");
  client.reset();
  idle();
  EXPECT_EQ(heard, "");
  make({.keep_limit = 1000}).connect(server->local_endpoint());
  for (int i = 0; i < 300; ++i) client->send("x");
  loop.post([&] { client.reset(); });
  idle();
  EXPECT_EQ(ups, 0);
}

struct told_core {
  void disconnect() { told += "disconnect "; }
  std::string told;
};

TEST(ClientCommands, MergeWishesThatFollowEachOther) {
  gyre::net::detail::client_commands<told_core> commands;
  told_core core;
  int posts = 0;
  const auto post = [&] { ++posts; };
  const auto tell = [](std::string what) {
    return [what = std::move(what)](told_core& to) { to.told += what; };
  };
  for (int i = 0; i < 100; ++i) {
    commands.connect(tell("A "), post);
    commands.disconnect(post);
    commands.connect(tell("B "), post);
  }
  EXPECT_EQ(commands.size(), 1u);
  commands.send(tell("send "), post);
  for (int i = 0; i < 100; ++i) commands.connect(tell("C "), post);
  EXPECT_EQ(commands.size(), 3u);
  commands.send(tell("send "), post);
  commands.connect(tell("D "), post);
  commands.disconnect(post);
  EXPECT_EQ(posts, 1);
  while (auto next = commands.take()) (*next)(core);
  EXPECT_EQ(core.told, "disconnect B send C send disconnect ");
  EXPECT_THROW(commands.disconnect([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(commands.size(), 0u) << "nobody would come for it";
  commands.disconnect(post);
  EXPECT_EQ(posts, 2);
}

TEST(TcpClientOnAThread, MayBeUsedFromAnother) {
  gyre::loop_thread thread;
  tcp_server server(thread);
  server.on_message([](tcp_connection& c, input& in) {
    c.send(in.bytes());
    in.consume_all();
  });
  server.listen(any_port());
  server.start();
  for (int round = 0; round < unless_sanitized(20, 4); ++round) {
    std::atomic<std::size_t> echoed = 0;
    tcp_client client(thread, {.reconnect = true, .keep_limit = 1000});
    client.on_message([&](tcp_connection&, input& in) {
      echoed += in.size();
      in.consume_all();
    });
    client.connect(server.local_endpoint());
    for (int i = 0; i < 10; ++i) client.send("hello");
    while (echoed < 50) std::this_thread::yield();
    if (round % 2 == 0) client.disconnect();
  }
}

}  // namespace
}  // namespace tcp_client_test
