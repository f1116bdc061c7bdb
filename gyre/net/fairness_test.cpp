// SPDX-License-Identifier: Apache-2.0
// Tests that a quiet connection does not wait for a round of busy ones. They count bytes.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/fairness_test_support.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace fairness_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::io::stream;
using gyre::io::test::quiet_connection;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;

constexpr std::size_t busy_ones = 64;

// The time of a turn is not to end it.
gyre::loop_options patient() { return {.io_time = 24h}; }

// Connected sockets, not blocking.
std::pair<gyre::unique_fd, gyre::unique_fd> make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category());
  }
  return {gyre::unique_fd(ends[0]), gyre::unique_fd(ends[1])};
}

const std::string& much() {
  static const std::string text(std::size_t{1} << 20, 'x');
  return text;
}
// As a peer that sends as fast as it can.
void fill(int peer) {
  while (::send(peer, much().data(), much().size(), MSG_NOSIGNAL) > 0) continue;
}
// As a peer that reads as fast as it can. Returns the count of bytes.
std::size_t drain(int peer) {
  static std::array<std::byte, std::size_t{256} << 10> room;
  std::size_t sum = 0;
  for (ssize_t count = 0; (count = ::recv(peer, room.data(), room.size(), 0)) > 0;) {
    sum += static_cast<std::size_t>(count);
  }
  return sum;
}
void send_ping(int peer) { EXPECT_EQ(::send(peer, "ping", 4, MSG_NOSIGNAL), 4); }

task<> receive_pings(stream quiet, quiet_connection& waits) {
  while (!waits.is_done()) {
    const auto ping = co_await quiet.receive();
    waits.served();
  }
}

task<> receive_for_ever(stream busy, gyre::unique_fd peer, quiet_connection& waits) {
  fill(peer.get());
  while (!waits.is_done()) {
    const auto bytes = co_await busy.receive();
    fill(peer.get());
    waits.busy_one_moved(bytes.size());
  }
}

task<> write_for_ever(stream busy, gyre::unique_fd peer, quiet_connection& waits) {
  while (!waits.is_done()) {
    const std::size_t count = co_await busy.write_some(much());
    drain(peer.get());
    waits.busy_one_moved(count);
  }
}

task<> echo_for_ever(stream busy, gyre::unique_fd peer, quiet_connection& waits) {
  fill(peer.get());
  while (!waits.is_done()) {
    const auto bytes = co_await busy.receive();
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const std::size_t count = co_await busy.write_some(rest);
      rest = rest.subspan(count);
      drain(peer.get());
    }
    fill(peer.get());
    waits.busy_one_moved(bytes.size());
  }
}

void run_beside_coroutines(task<> (*work)(stream, gyre::unique_fd, quiet_connection&)) {
  gyre::loop loop(patient());
  auto [quiet, quiet_peer] = make_pair();
  quiet_connection waits([&] { send_ping(quiet_peer.get()); });
  constexpr auto kind = gyre::io::handle_kind::socket;
  std::vector<task<>> all;
  for (std::size_t i = 0; i < busy_ones; ++i) {
    auto [busy, peer] = make_pair();
    all.push_back(work(stream(loop, std::move(busy), kind), std::move(peer), waits));
  }
  all.push_back(receive_pings(stream(loop, std::move(quiet), kind), waits));
  gyre::sync_wait(loop, gyre::when_all(std::move(all)));
  EXPECT_LE(waits.most(), quiet_connection::most_meanwhile);
}

TEST(Fairness, AQuietCoroutineDoesNotWaitForARoundOfReaders) {
  run_beside_coroutines(&receive_for_ever);
}

TEST(Fairness, AQuietCoroutineDoesNotWaitForARoundOfWriters) {
  run_beside_coroutines(&write_for_ever);
}

TEST(Fairness, AQuietCoroutineDoesNotWaitForARoundOfEchoes) {
  run_beside_coroutines(&echo_for_ever);
}

// A server with callbacks, and connections of which the last differs from the others.
class FairServer : public testing::Test {
 protected:
  explicit FairServer(std::chrono::nanoseconds io_time = 24h) : loop_({.io_time = io_time}) {
    for (std::size_t i = 0; i <= busy_ones; ++i) {
      auto [end, peer] = make_pair();
      server_.adopt(std::move(end));
      peers_.push_back(std::move(peer));
    }
  }
  static bool is_last(const tcp_connection& each) { return each.id() == busy_ones + 1; }
  int peer_of(const tcp_connection& each) const { return peers_[each.id() - 1].get(); }
  int quiet_peer() const { return peers_.back().get(); }
  std::span<const gyre::unique_fd> busy_peers() const { return std::span(peers_).first(busy_ones); }

  gyre::loop loop_;
  tcp_server server_{loop_, gyre::net::tcp_server_options{}};
  std::vector<gyre::unique_fd> peers_;
  quiet_connection waits_{[this] { send_ping(quiet_peer()); }};
};

TEST_F(FairServer, AQuietConnectionDoesNotWaitForARoundOfBusyOnes) {
  server_.on_message([&](tcp_connection& from, gyre::io::input& in) {
    const std::size_t bytes = in.size();
    in.consume_all();
    if (is_last(from)) {
      waits_.served();
      if (waits_.is_done()) loop_.stop();
    } else {
      fill(peer_of(from));
      waits_.busy_one_moved(bytes);
    }
  });
  for (const auto& each : busy_peers()) fill(each.get());
  loop_.run();
  EXPECT_TRUE(waits_.is_done());
  EXPECT_LE(waits_.most(), quiet_connection::most_meanwhile);
}

// Output that waits for the peers is sent when they have read.
TEST_F(FairServer, AQuietConnectionDoesNotWaitForARoundOfOutput) {
  const auto sent = [this] { return server_.metrics().traffic.bytes_sent; };
  std::size_t pings = 0;
  std::uint64_t sent_before = 0;
  std::uint64_t most = 0;
  server_.on_connection([](tcp_connection& made) {
    if (!is_last(made)) made.send(std::string(std::size_t{3} << 19, 'x'));
  });
  server_.on_message([&](tcp_connection&, gyre::io::input& in) {
    in.consume_all();
    ++pings;
    if (pings > 2) most = std::max(most, sent() - sent_before);  // it is known who is busy
  });
  gyre::net::test::settle(loop_);
  for (std::size_t turn = 0; turn < 6; ++turn) {
    for (const auto& each : busy_peers()) drain(each.get());
    sent_before = sent();
    send_ping(quiet_peer());
    while (pings == turn) loop_.poll();
  }
  EXPECT_LE(most, quiet_connection::most_meanwhile);
}

// All of them wait for a report, and the report of the quiet one is the last.
TEST_F(FairServer, AQuietConnectionDoesNotWaitForReportsOfBusyOnes) {
  std::size_t pings = 0;
  std::size_t received = 0;
  std::size_t most = 0;
  server_.on_message([&](tcp_connection& from, gyre::io::input& in) {
    if (!is_last(from)) {
      received += in.size();
    } else if (++pings > 2) {  // it is known who is busy
      most = std::max(most, received);
    }
    in.consume_all();
  });
  for (std::size_t turn = 0; turn < 6; ++turn) {
    gyre::net::test::settle(loop_);
    for (const auto& each : busy_peers()) fill(each.get());
    received = 0;
    send_ping(quiet_peer());
    while (pings == turn) loop_.poll();
  }
  EXPECT_LE(most, quiet_connection::most_meanwhile);
}

// Also where the time of a turn is over after one of them.
class FairToBusyOne : public FairServer, public testing::WithParamInterface<std::int64_t> {
 protected:
  FairToBusyOne() : FairServer(std::chrono::nanoseconds(GetParam())) {}
};

TEST_P(FairToBusyOne, ABusyConnectionIsServedBesideManyThatExchangeSmallMessages) {
  std::size_t visits = 0;
  std::size_t messages = 0;
  std::size_t most = 0;
  server_.on_message([&](tcp_connection& from, gyre::io::input& in) {
    in.consume_all();
    if (!is_last(from)) {
      ++messages;
      return send_ping(peer_of(from));
    }
    most = std::max(most, std::exchange(messages, 0));
    fill(peer_of(from));
    if (++visits == 100) loop_.stop();
  });
  for (const auto& each : busy_peers()) send_ping(each.get());
  fill(peers_.back().get());
  loop_.run();
  // A connection may receive four times in a visit.
  EXPECT_LE(most, 3 * 4 * busy_ones);
}

INSTANTIATE_TEST_SUITE_P(IoTime, FairToBusyOne, testing::Values(1, 86'400'000'000'000));

}  // namespace
}  // namespace fairness_test
