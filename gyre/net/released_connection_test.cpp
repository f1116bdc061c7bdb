// SPDX-License-Identifier: Apache-2.0
// Tests of connections that change their owner: no received byte is lost between two of them.
#include <gyre/net/released_connection.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/layered_stream.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace released_connection_test {
namespace {

using namespace std::chrono_literals;
using gyre::event_loop;
using gyre::task;
using gyre::io::input;
using gyre::net::layered_stream;
using gyre::net::released_connection;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_stream;
using gyre::net::test::any_port;
using gyre::net::test::long_text;
using gyre::net::test::peer;
using gyre::net::test::turn_until;

std::string masked(std::string_view text) {
  std::string result(text);
  for (char& each : result) each = static_cast<char>(each ^ 1);
  return result;
}

/// Masks each byte, and forgets nothing.
class mask final : public gyre::net::layer {
 public:
  status read(std::span<std::byte> room, std::size_t& count) override {
    count = std::min(room.size(), unread().size());
    std::ranges::transform(unread().first(count), room.begin(), of);
    consume(count);
    return count > 0 ? status::done : status::wants_input;
  }
  status peek() override { return unread().empty() ? status::wants_input : status::done; }
  status write(std::span<const std::byte> bytes) override {
    std::ranges::transform(bytes, output().prepare(bytes.size()).begin(), of);
    output().commit(bytes.size());
    return status::done;
  }

 private:
  static std::byte of(std::byte plain) { return plain ^ std::byte{1}; }
};

struct masks final : gyre::net::transport {
  std::unique_ptr<gyre::net::layer> make_layer(std::string_view) const override {
    return std::make_unique<mask>();
  }
};

/// Reads with `received` first until there are `size` bytes, and writes them back.
template <class Stream>
task<> echo(Stream& stream, std::string received, std::size_t size, std::string& got) {
  while (received.size() < size) {
    std::array<char, 4096> room;
    const std::size_t count = co_await stream.read_some(std::as_writable_bytes(std::span(room)));
    if (count == 0) break;
    received.append(room.data(), count);
  }
  got = received;
  co_await stream.write_all(received);
}

template <class Function>
std::error_code error_of(Function function) {
  try {
    function();
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  }
}

struct ReleasedConnection : testing::Test {
  gyre::loop loop;
  std::optional<tcp_server> server{loop};
  std::optional<released_connection> released;
  std::string got;
  std::vector<tcp_connection*> connections;  // those that start_pausing() serves
  int messages = 0;

  void start() {
    server->listen(any_port());
    server->start();
  }
  // A server whose connections pause at each message.
  void start_pausing(bool consumes) {
    server->on_connection([this](tcp_connection& served) { connections.push_back(&served); });
    server->on_message([this, consumes](tcp_connection& served, input& in) {
      ++messages;
      if (consumes) in.consume_all();
      served.pause_reading();
    });
    start();
  }
  peer connect() {
    peer client(server->local_endpoint());
    const std::size_t before = connections.size();
    turn_until(loop, [&] { return connections.size() > before; });
    return client;
  }
};

TEST_F(ReleasedConnection, GoesFromCallbacksToACoroutineWithAllBytes) {
  constexpr std::size_t size = 4'000'000;
  int closed = 0;
  server->on_message([&](tcp_connection& connection, input& in) {
    in.consume(1);
    released = connection.release(in.bytes());
    EXPECT_FALSE(connection.is_open());
    EXPECT_FALSE(connection.send("too late"));
  });
  server->on_close([&](tcp_connection&, std::error_code why) {
    ++closed;
    EXPECT_FALSE(why);
  });
  start();
  peer client(server->local_endpoint());
  const std::string text = long_text(size);
  // As much as the kernel takes, so that a ring has received several pieces at the first message.
  std::size_t sent = 0;
  const auto send_more = [&] {
    ssize_t count = 0;
    do {
      count = ::send(client.fd(), text.data() + sent, size - sent, MSG_DONTWAIT);
      if (count > 0) sent += static_cast<std::size_t>(count);
    } while (count > 0);
  };
  send_more();
  turn_until(loop, [&] { return released.has_value() && closed == 1; });
  EXPECT_EQ(server->metrics().connections, 0u);
  EXPECT_EQ(released->peer, gyre::net::socket_ref(client.fd()).local_endpoint());
  server.reset();  // which is no longer the owner

  tcp_stream stream(loop, std::move(released->socket));
  bool done = false;
  const auto run = [&]() -> task<> {
    co_await echo(stream, std::string(released->received.text()), size - 1, got);
    done = true;
  };
  gyre::spawn(loop, run());
  turn_until(loop, [&] {
    send_more();
    client.receive();
    return done;
  });
  EXPECT_TRUE(got == text.substr(1));
  EXPECT_TRUE(client.receive(loop, size - 1) == text.substr(1));
}

TEST_F(ReleasedConnection, GoesToAServerOnAnotherLoop) {
  gyre::loop other_loop;
  tcp_server other(other_loop);
  server->on_message([&](tcp_connection& connection, input& in) {
    if (in.size() < 5) return;  // the unconsumed bytes wait in the connection
    in.consume(1);
    other.adopt(connection.release(in.bytes()));
  });
  other.on_message([&](tcp_connection& connection, input& in) {
    got += in.text();
    in.consume_all();
    connection.send("taken");
  });
  other.start();
  start();
  peer client(server->local_endpoint());
  client.send("one");
  turn_until(loop, [&] { return server->metrics().traffic.messages == 1; });
  client.send(" two");
  turn_until(loop, [&] { return server->metrics().connections == 0; });
  turn_until(other_loop, [&] { return !got.empty(); });
  EXPECT_EQ(got, "ne two");
  client.send(" three");
  turn_until(other_loop, [&] { return got.size() == 12; });
  EXPECT_EQ(got, "ne two three");
  EXPECT_EQ(other.metrics().connections, 1u);
  EXPECT_EQ(client.receive(other_loop, 5).substr(0, 5), "taken");
}

// A ring receives the bytes while it ends the request that receives.
TEST_F(ReleasedConnection, LosesNoBytesThatArriveMeanwhile) {
  std::optional<peer> client;
  server->on_message([&](tcp_connection& connection, input& in) {
    client->send(" and more");
    released = connection.release(in.bytes());
  });
  start();
  client.emplace(server->local_endpoint());
  client->send("some");
  turn_until(loop, [&] { return released.has_value(); });
  tcp_stream stream(loop, std::move(released->socket));
  gyre::sync_wait(loop, echo(stream, std::string(released->received.text()), 13, got));
  EXPECT_EQ(got, "some and more");
}

TEST_F(ReleasedConnection, BringsWhatARingHasReceivedDuringAPause) {
  start_pausing(false);
  peer client = connect();
  const peer other = connect();
  client.send("kept");
  turn_until(loop, [&] { return messages == 1; });
  client.send(" and more");
  other.send("so that the ring has brought that, too");
  turn_until(loop, [&] { return messages == 2; });
  released = connections.front()->release();
  tcp_stream stream(loop, std::move(released->socket));
  gyre::sync_wait(loop, echo(stream, std::string(released->received.text()), 13, got));
  EXPECT_EQ(got, "kept and more");
}

TEST_F(ReleasedConnection, TakesItsLayerToACoroutineAndBack) {
  server.emplace(loop, gyre::net::tcp_server_options{.transport = std::make_shared<masks>()});
  bool taken = false;
  server->on_message([&](tcp_connection& connection, input& in) {
    if (std::exchange(taken, true)) {
      got += in.text();
      in.consume_all();
      return;
    }
    in.consume(2);
    released = connection.release(in.bytes());
    EXPECT_EQ(connection.layer(), nullptr);
  });
  start();
  peer client(server->local_endpoint());
  client.send(masked("abcdef"));
  turn_until(loop, [&] { return released.has_value(); });
  EXPECT_EQ(released->received.text(), "cdef");

  layered_stream stream(loop, *released);
  gyre::sync_wait(loop, [&]() -> task<> {
    co_await stream.write_all("by a coroutine");
    std::array<std::byte, 2> room;
    client.send(masked("ghij"));
    EXPECT_EQ(co_await stream.read_exactly(room), 2u);
  }());
  EXPECT_EQ(client.receive(loop, 14), masked("by a coroutine"));
  released_connection back = stream.release();
  EXPECT_FALSE(stream.is_open());
  EXPECT_EQ(error_of([&] { gyre::sync_wait(loop, stream.write_all("x")); }),
            gyre::io::errc::not_open);
  back.received.append("first ");
  server->adopt(std::move(back));
  turn_until(loop, [&] { return got.size() == 8; });
  EXPECT_EQ(got, "first ij");
  EXPECT_EQ(server->metrics().connections, 1u);
}

TEST_F(ReleasedConnection, MayBeReleasedAgainBeforeItsBytesWereDelivered) {
  gyre::loop other_loop;
  tcp_server other(other_loop);
  server->on_message(
      [&](tcp_connection& connection, input& in) { other.adopt(connection.release(in.bytes())); });
  other.on_connection([&](tcp_connection& connection) { released = connection.release(); });
  other.on_message([](tcp_connection&, input&) { FAIL() << "is not its owner any more"; });
  other.start();
  start();
  peer client(server->local_endpoint());
  client.send("hello");
  turn_until(loop, [&] { return server->metrics().traffic.messages == 1; });
  turn_until(other_loop, [&] { return released.has_value(); });
  EXPECT_EQ(released->received.text(), "hello");
}

TEST_F(ReleasedConnection, KeepsTheAddressThatAProxyHasTold) {
  const gyre::net::endpoint client(gyre::net::ip_address::loopback_v4(), 17);
  auto [one, its_peer] = gyre::net::socket_pair();
  released_connection given{
      .socket = one.release(), .peer = client, .layer = std::make_unique<mask>()};
  layered_stream stream(loop, given);
  EXPECT_EQ(stream.peer_endpoint(), client);
  EXPECT_EQ(stream.release().peer, client);
}

// The address does not tell the kind of the socket: on a Unix socket reads end at descriptors.
TEST_F(ReleasedConnection, OverAUnixSocketMayHaveAnIpAddress) {
  const gyre::net::endpoint client(gyre::net::ip_address::loopback_v4(), 17);
  server.emplace(loop, gyre::net::tcp_server_options{.connections = {.fd_limit = 8}});
  std::size_t fds = 0;
  server->on_message([&](tcp_connection& connection, input& in) {
    EXPECT_EQ(connection.peer_endpoint(), client);
    fds += connection.take_fds().size();
    got += in.text();
    in.consume_all();
  });
  server->start();
  auto [one, its_peer] = gyre::net::socket_pair();
  gyre::loop peer_loop;
  gyre::net::unix_stream sender(peer_loop, std::move(its_peer));
  server->adopt(released_connection{.socket = one.release(), .peer = client});
  const std::array<int, 1> passed{sender.fd()};
  const auto send = [&]() -> task<> {
    for (int i = 0; i < 3; ++i) {
      co_await sender.send_fds(std::as_bytes(std::span("ab", 2)), passed);
      co_await sender.write_all("c");
    }
  };
  gyre::sync_wait(peer_loop, send());
  turn_until(loop, [&] { return got.size() == 9; });
  EXPECT_EQ(got, "abcabcabc");
  EXPECT_EQ(fds, 3u);
}

TEST_F(ReleasedConnection, IsNoSocketThatIsNotConnected) {
  const gyre::net::endpoint client(gyre::net::ip_address::loopback_v4(), 17);
  server->start();
  EXPECT_EQ(error_of([&] { server->adopt(released_connection{.peer = client}); }),
            std::errc::bad_file_descriptor);
  auto unconnected =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  EXPECT_EQ(error_of([&] {
              server->adopt(released_connection{.socket = unconnected.release(), .peer = client});
            }),
            std::errc::not_connected);
}

TEST_F(ReleasedConnection, IsRefusedAfterTheStreamHasEndedItsSide) {
  auto [one, its_peer] = gyre::net::socket_pair();
  released_connection given{.socket = one.release(), .layer = std::make_unique<mask>()};
  layered_stream stream(loop, given);
  gyre::sync_wait(loop, stream.shutdown());
  EXPECT_EQ(error_of([&] { static_cast<void>(stream.release()); }), gyre::io::errc::not_open);
}

TEST_F(ReleasedConnection, TellsThatThePeerHasReset) {
  start_pausing(true);
  peer client = connect();
  const peer other = connect();
  client.send("whole");
  turn_until(loop, [&] { return messages == 1; });
  client.send("part");
  client.reset();
  other.send("so that a ring has brought that, too");
  turn_until(loop, [&] { return messages == 2; });
  const std::error_code told = error_of([&] {
    released = connections.front()->release();
    tcp_stream stream(loop, std::move(released->socket));
    std::array<std::byte, 64> room;
    while (gyre::sync_wait(loop, stream.read_some(room)) > 0) {
    }
  });
  EXPECT_EQ(told, std::errc::connection_reset);
}

TEST_F(ReleasedConnection, IsRefusedWhileOutputWaits) {
  constexpr std::size_t unlimited = std::size_t(-1);
  server.emplace(loop, gyre::net::tcp_server_options{.connections = {.output_limit = unlimited}});
  tcp_connection* connection = nullptr;
  bool closed = false;
  server->on_connection([&](tcp_connection& served) { connection = &served; });
  server->on_close([&](tcp_connection&, std::error_code) { closed = true; });
  start();
  peer client(server->local_endpoint(), 4096);
  turn_until(loop, [&] { return connection != nullptr; });
  const std::string much = long_text(8'000'000);
  ASSERT_TRUE(connection->send(much));
  ASSERT_GT(connection->pending_output(), 0u);
  EXPECT_EQ(error_of([&] { static_cast<void>(connection->release()); }),
            std::errc::operation_in_progress);
  EXPECT_TRUE(connection->is_open());
  EXPECT_TRUE(client.receive(loop, much.size()) == much);
  connection->close();
  EXPECT_EQ(error_of([&] { static_cast<void>(connection->release()); }), gyre::io::errc::not_open);
  client.close();
  turn_until(loop, [&] { return closed; });
}

TEST_F(ReleasedConnection, IsClosedWhenNobodyTakesIt) {
  server->on_message(
      [&](tcp_connection& connection, input& in) { released = connection.release(in.bytes()); });
  start();
  peer client(server->local_endpoint());
  client.send("x");
  turn_until(loop, [&] { return released.has_value(); });
  released.reset();
  EXPECT_TRUE(client.receive_end(loop));
}

TEST_F(ReleasedConnection, CountsAtTheLimitsOfAServer) {
  server.emplace(loop, gyre::net::tcp_server_options{.max_connections = 1});
  int begun = 0;
  server->on_connection([&](tcp_connection&) { ++begun; });
  start();
  auto [one, its_peer] = gyre::net::socket_pair();
  auto [two, other_peer] = gyre::net::socket_pair();
  server->adopt(released_connection{.socket = one.release()});
  server->adopt(released_connection{.socket = two.release()});
  turn_until(loop, [&] { return server->metrics().accepted == 2; });
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(server->metrics().refused, 1u);
}

TEST_F(ReleasedConnection, IsEmptyWhenTheStreamWasClosed) {
  layered_stream closed;
  EXPECT_FALSE(closed.release().socket);
  EXPECT_EQ(error_of([&] { server->adopt(released_connection{}); }),
            std::errc::bad_file_descriptor);
}

}  // namespace
}  // namespace released_connection_test
