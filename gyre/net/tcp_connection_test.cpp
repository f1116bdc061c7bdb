// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_connection.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_server.hpp>
#include <tests/support/idle_time_poller.hpp>
#include <tests/support/io_in_virtual_time.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tcp_connection_test {
namespace {

using namespace gyre::net::test;
using gyre::io::input;
using gyre::net::tcp_connection;
using gyre::net::tcp_connection_ref;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;

// Small buffers, so that the kernel accepts little at a time.
void limit_kernel_buffer(const tcp_connection& c) {
  gyre::net::socket_ref(c.fd()).set_send_buffer(200'000);
}

// A server that records the events of its connections.
class TcpConnection : public testing::Test {
 protected:
  TcpConnection() { make({}); }

  void make(tcp_server_options how) {
    server.emplace(loop, std::move(how));
    server->on_connection([this](tcp_connection& c) {
      limit_kernel_buffer(c);
      connection = &c;
      ++connects;
    });
    server->on_close([this](tcp_connection& c, std::error_code why) {
      if (connection == &c) connection = nullptr;
      ends.push_back(why);
    });
  }
  void start() {
    server->listen(any_port());
    server->start();
  }
  peer connect(int receive_buffer = 0) {
    const int before = connects;
    peer made(server->local_endpoint(), receive_buffer);
    turn_until(loop, [&] { return connects > before; });
    return made;
  }
  void wait_for_end() {
    turn_until(loop, [this] { return !ends.empty(); });
    settle(loop);
    EXPECT_EQ(ends.size(), 1u) << "closed must be called once";
  }

  std::vector<std::exception_ptr> thrown;
  gyre::loop loop{
      gyre::loop_options{
          .on_exception = [this](std::exception_ptr error) { thrown.push_back(std::move(error)); }},
      std::make_unique<gyre::test::idle_time_poller>()};
  std::optional<tcp_server> server;
  tcp_connection* connection = nullptr;
  int connects = 0;
  std::vector<std::error_code> ends;
};

void echo(tcp_connection& c, input& in) {
  EXPECT_TRUE(c.send(in.bytes()));
  in.consume_all();
}

TEST_F(TcpConnection, KnowsItsPeerUntilOnCloseReturnsThoughThatHasGone) {
  using gyre::net::ip_address;
  struct {
    ip_address server, client;
  } const families[] = {
      {ip_address::loopback_v4(), ip_address::loopback_v4()},
      {ip_address::loopback_v6(), ip_address::loopback_v6()},
      {ip_address::any_v6(), ip_address::loopback_v4()},  // an IPv4 peer of an IPv6 socket
  };
  for (const auto& [at, by] : families) {
    make({});
    gyre::net::endpoint seen;
    server->on_close([&](tcp_connection& c, std::error_code) { seen = c.peer_endpoint(); });
    server->listen(gyre::net::endpoint(at, 0));
    server->start();
    peer client(gyre::net::endpoint(by, server->local_endpoint().port()));
    turn_until(loop, [&] { return connection != nullptr; });
    const gyre::net::endpoint before = std::exchange(connection, nullptr)->peer_endpoint();
    const gyre::net::endpoint own = gyre::net::socket_ref(client.fd()).local_endpoint();
    EXPECT_EQ(before.address().unmapped(), own.address());
    EXPECT_EQ(before.address().is_v6(), at.is_v6()) << "as the socket sees it";
    EXPECT_EQ(before.port(), own.port());
    client.reset();
    turn_until(loop, [&] { return seen.is_ip(); });
    EXPECT_EQ(seen, before);
  }
}

TEST_F(TcpConnection, AThrowingHandlerDelaysNoOtherCall) {
  constexpr std::size_t count = 200;
  std::size_t closed = 0;
  server->on_close([&](tcp_connection&, std::error_code) {
    if (++closed % 50 == 0) throw std::runtime_error("each fiftieth");
  });
  server->start();
  std::vector<gyre::unique_fd> clients;
  for (std::size_t i = 0; i < count; ++i) {
    auto [left, right] = gyre::test::unix_pair();
    clients.push_back(std::move(right));
    server->adopt(std::move(left));
  }
  turn_until(loop, [&] { return server->metrics().connections == count; });
  server->for_each([](tcp_connection& each) { each.abort(); });
  turn_until(loop, [&] { return server->metrics().connections == 0; });
  EXPECT_EQ(closed, count);
  EXPECT_EQ(thrown.size(), count / 50);
}

TEST_F(TcpConnection, EchoesAndCounts) {
  server->on_message(&echo);
  start();
  peer client = connect();
  EXPECT_EQ(connection->peer_endpoint(), gyre::net::socket_ref(client.fd()).local_endpoint());
  EXPECT_EQ(connection->local_endpoint(), server->local_endpoint());
  for (int i = 1; i <= 100; ++i) {
    client.send("hello");
    client.receive(loop, static_cast<std::size_t>(i) * 5);
  }
  EXPECT_EQ(connection->metrics().bytes_received, 500u);
  EXPECT_EQ(connection->metrics().bytes_sent, 500u);
  EXPECT_EQ(connection->metrics().messages, 100u);
  EXPECT_EQ(connection->pending_output(), 0u);
  EXPECT_EQ(connection->id(), 1u);
  client.close();
  wait_for_end();
  EXPECT_FALSE(ends[0]) << ends[0].message();
  EXPECT_EQ(server->metrics().traffic.bytes_sent, 500u);
  EXPECT_EQ(server->metrics().connections, 0u);
}

TEST_F(TcpConnection, UnconsumedBytesComeAgain) {
  std::vector<std::string> seen;
  server->on_message([&](tcp_connection&, input& in) {
    seen.emplace_back(in.text());
    if (in.size() >= 3) in.consume(2);
    if (in.text() == "e") in.consume_all();
  });
  start();
  peer client = connect();
  std::size_t expected = 0;
  for (const char* each : {"ab", "c", "d", "e"}) {
    client.send(each);
    turn_until(loop, [&] { return seen.size() > expected; });
    ++expected;
  }
  EXPECT_THAT(seen, testing::ElementsAre("ab", "abc", "cd", "cde"));
}

TEST_F(TcpConnection, UnconsumedBytesAreLimited) {
  make({.connections = {.input_limit = 100}});
  server->on_message([](tcp_connection&, input&) {});
  start();
  peer client = connect();
  for (int i = 0; i < 11 && ends.empty(); ++i) {
    client.send("ten bytes ");
    settle(loop);
  }
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::no_buffer_space);
  EXPECT_EQ(ends[0], gyre::io::errc::input_limit);
}

TEST_F(TcpConnection, BytesThatTheKernelDoesNotAcceptAreSentLater) {
  int completions = 0;
  server->on_write_complete([&](tcp_connection&) { ++completions; });
  start();
  peer client = connect();
  const std::string text = long_text(1'500'000);
  EXPECT_TRUE(connection->send(text));
  EXPECT_GT(connection->pending_output(), 0u) << "the kernel takes that much at once";
  EXPECT_TRUE(connection->send("behind it"));
  settle(loop);
  EXPECT_EQ(completions, 0);
  EXPECT_EQ(client.receive(loop, text.size() + 9), text + "behind it");
  turn_until(loop, [&] { return completions > 0; });
  EXPECT_EQ(completions, 1);
  EXPECT_EQ(connection->pending_output(), 0u);
}

TEST_F(TcpConnection, SendsPiecesAndBuffersInOrder) {
  start();
  peer client = connect();
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const std::string large = long_text(1'200'000);
  EXPECT_TRUE(connection->send({bytes("a"), bytes(""), bytes("bc")}));
  EXPECT_TRUE(connection->send({bytes("<"), bytes(large), bytes(">")}));
  EXPECT_TRUE(connection->send({bytes("d"), bytes("e")}));
  gyre::io::buffer buffer;
  buffer.append(large);
  EXPECT_TRUE(connection->send(std::move(buffer)));
  EXPECT_TRUE(buffer.empty());  // NOLINT(bugprone-use-after-move): that is said of it
  EXPECT_TRUE(connection->send(std::string_view()));
  const std::string expected = "abc<" + large + ">de" + large;
  EXPECT_EQ(client.receive(loop, expected.size()), expected);
  buffer.append("small");
  EXPECT_TRUE(connection->send(std::move(buffer)));
  EXPECT_EQ(client.receive(loop, expected.size() + 5), expected + "small");
}

// Pitfall: unbounded output.
TEST_F(TcpConnection, ASlowReaderIsGivenUpAtTheLimit) {
  make({.connections = {.output_limit = 1'000'000}});
  start();
  peer client = connect(4096);
  const std::string text = long_text(100'000);
  int accepted = 0;
  while (connection->send(text)) ++accepted;
  EXPECT_GT(accepted, 9);
  EXPECT_FALSE(connection->is_open());
  EXPECT_TRUE(ends.empty()) << "not within send()";
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::no_buffer_space);
  EXPECT_EQ(ends[0], gyre::io::errc::output_limit);
}

TEST_F(TcpConnection, TellsOfHighAndLowWater) {
  make({.connections = {.high_water = 300'000, .low_water = 10'000}});
  std::vector<std::string> told;
  server->on_high_water([&](tcp_connection&, std::size_t waiting) {
    EXPECT_GE(waiting, 300'000u);
    told.emplace_back("high");
  });
  server->on_low_water([&](tcp_connection& c) {
    EXPECT_LE(c.pending_output(), 10'000u);
    told.emplace_back("low");
  });
  start();
  peer client = connect(4096);
  const std::string text = long_text(1'500'000);
  for (std::size_t i = 1; i <= 2; ++i) {
    connection->send(text);
    EXPECT_EQ(told.size(), 2 * i - 2) << "not within send()";
    turn_until(loop, [&] { return told.size() == 2 * i - 1; });
    connection->send("more");
    settle(loop);
    EXPECT_EQ(told.size(), 2 * i - 1) << "once";
    client.receive(loop, i * (text.size() + 4));
    turn_until(loop, [&] { return told.size() == 2 * i; });
  }
  EXPECT_THAT(told, testing::ElementsAre("high", "low", "high", "low"));
}

TEST_F(TcpConnection, APeerThatNeverReadsIsNotReadFromEither) {
  make({.connections = {.high_water = 100'000}});
  server->on_message(&echo);
  start();
  peer client = connect(4096);
  const std::string text = long_text(1 << 16);
  std::string sent;
  const auto send_what_it_takes = [&] {
    const ssize_t count = ::send(client.fd(), text.data(), text.size(), MSG_NOSIGNAL);
    if (count > 0) sent.append(text, 0, static_cast<std::size_t>(count));
    return count > 0;
  };
  turn_until(loop, [&] {
    send_what_it_takes();
    return connection == nullptr || connection->reading_paused() || sent.size() > 30'000'000;
  });
  ASSERT_NE(connection, nullptr);
  EXPECT_TRUE(connection->reading_paused());
  EXPECT_LT(connection->pending_output(), 4'000'000u) << "what one turn has brought, and no more";
  while (send_what_it_takes()) settle(loop);
  const std::size_t waiting = connection->pending_output();
  settle(loop);
  EXPECT_LE(connection->pending_output(), waiting);
  EXPECT_TRUE(client.receive(loop, sent.size()) == sent) << "it was resumed";
  EXPECT_FALSE(connection->reading_paused());
}

// The server has default options, like README's echo server.
TEST_F(TcpConnection, PeersThatNeverReadTakeAFewMebibytesEach) {
  std::vector<tcp_connection*> all;
  server->on_connection([&](tcp_connection& c) {
    limit_kernel_buffer(c);
    all.push_back(&c);
    ++connects;
  });
  server->on_message(&echo);
  start();
  std::vector<peer> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(connect(4096));
  const std::string text = long_text(1 << 16);
  turn_until(loop, [&] {
    for (const peer& each : peers) {
      static_cast<void>(::send(each.fd(), text.data(), text.size(), MSG_NOSIGNAL));
    }
    return !ends.empty() ||
           std::ranges::all_of(all, [](const tcp_connection* c) { return c->reading_paused(); });
  });
  ASSERT_TRUE(ends.empty()) << ends.front().message();
  for (const tcp_connection* each : all) {
    EXPECT_GE(each->pending_output(), std::size_t{1} << 20);
    EXPECT_LE(each->pending_output(), std::size_t{4} << 20);
  }
}

TEST_F(TcpConnection, AProgramThatIsToldOfHighWaterDecidesWhetherToRead) {
  make({.connections = {.high_water = 100'000}});
  std::string heard;
  bool told = false;
  server->on_high_water([&](tcp_connection&, std::size_t) { told = true; });
  server->on_message([&](tcp_connection&, input& in) {
    heard += in.text();
    in.consume_all();
  });
  start();
  peer client = connect(4096);
  EXPECT_TRUE(connection->send(long_text(1'500'000)));
  turn_until(loop, [&] { return told; });
  EXPECT_FALSE(connection->reading_paused());
  client.send("still heard");
  turn_until(loop, [&] { return heard == "still heard"; });
}

TEST_F(TcpConnection, ThePausesOfTheProgramAndOfHighWaterDoNotMix) {
  make({.connections = {.high_water = 100'000}});
  server->on_message(&echo);
  start();
  peer client = connect(4096);
  EXPECT_TRUE(connection->send(long_text(1'500'000)));
  EXPECT_TRUE(connection->reading_paused());
  connection->resume_reading();
  EXPECT_TRUE(connection->reading_paused()) << "the output still waits";
  connection->pause_reading();
  client.receive(loop, 1'500'000);
  turn_until(loop, [&] { return connection->pending_output() == 0; });
  EXPECT_TRUE(connection->reading_paused()) << "the program has not resumed it";
  connection->resume_reading();
  client.send("end");
  EXPECT_EQ(client.receive(loop, 1'500'003).substr(1'500'000), "end");
}

TEST_F(TcpConnection, SmallPostsAreLimitedAndEmptyOnesNotPosted) {
  start();
  peer client = connect();
  const tcp_connection_ref ref = connection->ref();
  std::size_t accepted = 0;
  for (int i = 0; i < 20'000; ++i) accepted += ref.send("x") ? 1 : 0;
  EXPECT_LE(accepted, 5'000u) << "each costs far more than its byte";
  EXPECT_GE(accepted, 1'000u);
  const std::size_t waiting = loop.metrics().tasks_pending;
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(ref.send(""));
  EXPECT_EQ(loop.metrics().tasks_pending, waiting);
  EXPECT_EQ(client.receive(loop, accepted).size(), accepted);
  EXPECT_TRUE(ref.send("x"));
}

// Messages end with a newline.
class TcpConnectionWithMessages : public testing::Test {
 protected:
  TcpConnectionWithMessages() {
    server.on_message([](tcp_connection&, input& in) {
      const std::size_t last = in.text().rfind('\n');
      if (last != std::string_view::npos) in.consume(last + 1);
    });
    server.on_connection([this](tcp_connection& c) { connection = &c; });
    server.on_close([this](tcp_connection&, std::error_code why) { end = why; });
    server.listen(any_port());
    server.start();
    client.emplace(server.local_endpoint());
    virtual_time.turn_until([this] { return connection != nullptr; });
  }
  void hear(std::string_view bytes) {
    const std::uint64_t heard = connection->metrics().bytes_received + bytes.size();
    client->send(bytes);
    virtual_time.turn_until([&] { return end || connection->metrics().bytes_received >= heard; });
  }
  void pass(std::chrono::nanoseconds elapsed) {
    virtual_time.advance(elapsed);
    virtual_time.settle();
  }

  gyre::test::io_in_virtual_time virtual_time;
  tcp_server server{virtual_time.loop, tcp_server_options{.connections = {.message_timeout = 4s}}};
  tcp_connection* connection = nullptr;
  std::optional<peer> client;
  std::optional<std::error_code> end;
};

TEST_F(TcpConnectionWithMessages, EndWhenOneTakesTooLongThoughBytesCome) {
  for (int seconds = 0; seconds < 3; ++seconds) {
    hear("x");
    pass(1001ms);
    EXPECT_FALSE(end) << "before its time";
  }
  for (int seconds = 0; seconds < 3 && !end; ++seconds) {
    hear("x");
    pass(1001ms);
  }
  EXPECT_EQ(end, std::error_code(gyre::io::errc::message_timeout));
}

TEST_F(TcpConnectionWithMessages, GoOnWhileMessagesAreCompleted) {
  for (int seconds = 0; seconds < 20; ++seconds) {
    hear(seconds % 2 == 0 ? "the beginning" : " and the end\nof more");
    pass(1001ms);
    ASSERT_FALSE(end);
  }
  hear("\n");
  for (int seconds = 0; seconds < 20; ++seconds) pass(1001ms);
  EXPECT_FALSE(end) << "none is incomplete";
}

TEST_F(TcpConnectionWithMessages, AreNotTimedOutWhileTheProgramDoesNotRead) {
  hear("incomplete");
  connection->pause_reading();
  for (int seconds = 0; seconds < 20; ++seconds) pass(1001ms);
  ASSERT_FALSE(end);
  connection->resume_reading();
  hear(" no more\n");
  EXPECT_FALSE(end);
}

// Each call of on_high_water and on_low_water must agree with the pending output at that time.
TEST_F(TcpConnection, TellsOfLowWaterAlsoIfNobodyHearsOfHighWater) {
  gyre::loop busy({.batch = 1});
  server.emplace(busy, tcp_server_options{.connections = {.high_water = 300'000, .low_water = 1}});
  int told = 0;
  server->on_connection([&](tcp_connection& c) { connection = &c; });
  server->on_low_water([&](tcp_connection&) { ++told; });
  auto [served, other] = gyre::net::socket_pair();
  peer client(std::move(other));
  server->adopt(served.release());
  turn_until(busy, [&] { return connection != nullptr; });
  for (int i = 0; i < 2000; ++i) busy.post([] {});
  connection->send(std::string(900'000, 'x'));
  turn_until(busy, [&] {
    client.receive();
    return connection->pending_output() == 0;
  });
  turn_until(busy, [&] { return told != 0; });
  EXPECT_EQ(told, 1);
  server.reset();  // before its loop
}

TEST_F(TcpConnection, TellsOfHighAndLowWaterAsItIs) {
  gyre::loop busy({.batch = 1});
  server.emplace(busy, tcp_server_options{.connections = {.high_water = 300'000, .low_water = 1}});
  std::string told;
  server->on_connection([&](tcp_connection& c) { connection = &c; });
  server->on_high_water([&](tcp_connection& c, std::size_t) {
    told += 'H';
    EXPECT_GE(c.pending_output(), 300'000u);
  });
  server->on_low_water([&](tcp_connection& c) {
    told += 'L';
    EXPECT_LE(c.pending_output(), 1u);
  });
  auto [served, other] = gyre::net::socket_pair();
  peer client(std::move(other));
  server->adopt(served.release());
  turn_until(busy, [&] { return connection != nullptr; });
  const std::string much(900'000, 'x');
  const auto fall = [&] {
    turn_until(busy, [&] {
      client.receive();
      return connection->pending_output() == 0;
    });
  };
  for (int i = 0; i < 2000; ++i) busy.post([] {});
  connection->send(much);
  fall();
  EXPECT_EQ(told, "") << "it is not its turn yet";
  connection->send(much);
  settle(busy);
  EXPECT_EQ(told, "H");
  fall();
  settle(busy);
  EXPECT_EQ(told, "HL");
  server.reset();
  settle(busy);
}

TEST_F(TcpConnection, ReceivesWhatComesBehindDescriptors) {
  std::string heard;
  server->on_message([&](tcp_connection&, input& in) {
    heard += in.text();
    in.consume_all();
  });
  auto [served, other] = gyre::net::socket_pair();
  server->adopt(served.release());
  turn_until(loop, [&] { return connection != nullptr; });
  char text = 'a';
  iovec piece{&text, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr& first = *CMSG_FIRSTHDR(&message);
  first.cmsg_level = SOL_SOCKET;
  first.cmsg_type = SCM_RIGHTS;
  first.cmsg_len = CMSG_LEN(sizeof(int));
  const int sent = other.fd();
  std::memcpy(CMSG_DATA(&first), &sent, sizeof sent);
  ASSERT_EQ(::sendmsg(other.fd(), &message, MSG_NOSIGNAL), 1);
  ASSERT_EQ(::send(other.fd(), "b", 1, MSG_NOSIGNAL), 1);
  turn_until(loop, [&] { return heard == "ab"; });
}

TEST_F(TcpConnection, PausedReadingHoldsThePeerBack) {
  std::string seen;
  server->on_message([&](tcp_connection& c, input& in) {
    seen += in.text();
    in.consume_all();
    c.pause_reading();
  });
  start();
  peer client = connect();
  client.send("one");
  turn_until(loop, [&] { return seen == "one"; });
  client.send("two");
  for (int i = 0; i < 20; ++i) loop.run_for(100us);
  EXPECT_EQ(seen, "one");
  EXPECT_TRUE(connection->reading_paused());
  connection->resume_reading();
  connection->resume_reading();
  turn_until(loop, [&] { return seen == "onetwo"; });
  connection->pause_reading();
  client.close();
  for (int i = 0; i < 20; ++i) loop.run_for(100us);
  EXPECT_TRUE(ends.empty());
  connection->resume_reading();
  wait_for_end();
}

TEST_F(TcpConnection, LeftOverInputIsHeardWhenReadingIsResumed) {
  std::vector<std::string> heard;
  bool ended = false;
  server->on_message([&](tcp_connection& c, input& in) {
    heard.emplace_back(in.text());
    in.consume(2);
    c.pause_reading();
  });
  server->on_peer_ended([&](tcp_connection& c) {
    ended = true;
    c.close();
  });
  start();
  peer client = connect();
  client.send("1\n2\n3\n");
  client.close();
  turn_until(loop, [&] { return heard.size() == 1; });
  for (const char* rest : {"2\n3\n", "3\n"}) {
    const std::size_t before = heard.size();
    connection->resume_reading();
    connection->resume_reading();
    EXPECT_EQ(heard.size(), before) << "never before it returns";
    turn_until(loop, [&] { return heard.size() > before; });
    EXPECT_EQ(heard.back(), rest);
    EXPECT_FALSE(ended) << "not before all has been heard";
  }
  connection->resume_reading();
  wait_for_end();
  EXPECT_TRUE(ended);
  EXPECT_EQ(heard.size(), 3u);
}

TEST_F(TcpConnection, ReceivesAtMostItsSizeAtOnce) {
  constexpr std::size_t size = 10'000;
  make({.connections = {.receive_size = size}});
  std::size_t received = 0;
  server->on_message([&](tcp_connection&, input& in) {
    EXPECT_LE(in.size(), size);
    received += in.size();
    in.consume_all();
  });
  start();
  peer client = connect();
  const std::string text(10 * size, 'x');
  client.send(text);
  turn_until(loop, [&] { return received == text.size(); });
}

TEST_F(TcpConnection, LeftOverInputIsHeardThoughTheCallbackItselfResumes) {
  std::vector<std::string> heard;
  server->on_message([&](tcp_connection& c, input& in) {
    heard.emplace_back(in.text());
    in.consume(1);
    c.pause_reading();
    c.resume_reading();
  });
  start();
  peer client = connect();
  client.send("123");
  turn_until(loop, [&] { return heard.size() == 3; });
  EXPECT_EQ(heard, (std::vector<std::string>{"123", "23", "3"}));
}

TEST_F(TcpConnection, LeftOverInputComesBeforeWhatHasComeMeanwhile) {
  std::string heard;
  bool takes_all = false;
  server->on_message([&](tcp_connection& c, input& in) {
    if (!takes_all) return c.pause_reading();
    heard += in.text();
    in.consume_all();
  });
  start();
  peer client = connect();
  client.send("old");
  turn_until(loop, [&] { return connection != nullptr && connection->reading_paused(); });
  client.send("new");
  connection->resume_reading();
  connection->pause_reading();
  for (int i = 0; i < 20; ++i) loop.run_for(100us);
  EXPECT_EQ(heard, "") << "it is paused again";
  takes_all = true;
  connection->resume_reading();
  turn_until(loop, [&] { return heard.size() == 6; });
  EXPECT_EQ(heard, "oldnew");
}

TEST_F(TcpConnection, EndsInOrderWhenItIsClosedBeforeLeftOverInputIsHeard) {
  int messages = 0;
  server->on_message([&](tcp_connection& c, input&) {
    ++messages;
    c.pause_reading();
  });
  start();
  peer client = connect();
  client.send("text");
  turn_until(loop, [&] { return messages == 1; });
  connection->resume_reading();
  connection->close(std::chrono::hours(1));
  client.close();
  wait_for_end();
  EXPECT_FALSE(ends[0]) << ends[0].message();
  EXPECT_EQ(messages, 1);
}

// Pitfall: close discards pending output.
TEST_F(TcpConnection, CloseSendsWhatWasAcceptedFirst) {
  start();
  peer client = connect();
  const std::string text = long_text(1'200'000);
  connection->send(text);
  connection->close();
  connection->close();
  EXPECT_TRUE(connection->is_open());
  EXPECT_FALSE(connection->can_send());
  EXPECT_FALSE(connection->send("no more"));
  client.send("not looked at");
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, text);
  EXPECT_TRUE(ends.empty()) << "it waits for the peer's end";
  client.close();
  wait_for_end();
  EXPECT_FALSE(ends[0]) << ends[0].message();
}

TEST_F(TcpConnection, CloseWithoutLingeringEndsOnceTheOutputIsSent) {
  start();
  peer client = connect();
  const std::string text = long_text(1'200'000);
  connection->send(text);
  connection->close_without_lingering();
  connection->close_without_lingering();
  EXPECT_FALSE(connection->send("no more"));
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, text);
  wait_for_end();
  EXPECT_FALSE(ends[0]) << ends[0].message();
}

TEST_F(TcpConnection, CloseWithoutLingeringEndsAConnectionThatLingers) {
  start();
  peer client = connect();
  connection->send("x");
  connection->close();
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_TRUE(ends.empty());
  connection->close_without_lingering();
  wait_for_end();
  EXPECT_FALSE(ends[0]) << ends[0].message();
}

TEST_F(TcpConnection, CloseWhenSentClosesAtOnceWithoutOutput) {
  start();
  peer client = connect();
  connection->send("x");
  ASSERT_EQ(connection->pending_output(), 0u);
  connection->close_when_sent();
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_TRUE(ends.empty()) << "it waits for the peer's end";
  client.close();
  wait_for_end();
  EXPECT_FALSE(ends[0]) << ends[0].message();
}

TEST_F(TcpConnection, CloseGivesUpWhenThePeerTakesNothing) {
  make({.connections = {.close_timeout = 20ms}});
  start();
  peer client = connect(4096);
  connection->send(long_text(1'500'000));
  connection->close();
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::timed_out);
  EXPECT_EQ(ends[0], gyre::io::errc::close_timeout);
}

TEST_F(TcpConnection, CloseTellsThatThePeerHasNotTakenBytesOfTheKernel) {
  make({.connections = {.close_timeout = 20ms}});
  start();
  peer client = connect(4096);
  gyre::net::socket_ref(connection->fd()).set_send_buffer(200'000);
  connection->send(long_text(100'000));
  ASSERT_EQ(connection->pending_output(), 0u) << "the kernel has all of it";
  connection->close();
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::timed_out);
  EXPECT_EQ(ends[0], gyre::io::errc::close_timeout);
}

// A connection with more to send than the kernel takes, to a peer that reads a little now and then.
class TcpConnectionToASlowPeer : public testing::Test {
 protected:
  // Calls `opened` with the connection, to which the text has been sent.
  void open(gyre::net::connection_options how, std::function<void(tcp_connection&)> opened) {
    server.emplace(virtual_time.loop, tcp_server_options{.connections = how});
    server->on_connection([this, opened = std::move(opened)](tcp_connection& c) {
      limit_kernel_buffer(c);
      c.send(text);
      opened(c);
    });
    server->on_close([this](tcp_connection&, std::error_code why) { end = why; });
    server->on_message([](tcp_connection&, input& in) { in.consume_all(); });
    server->listen(any_port());
    server->start();
    client.emplace(server->local_endpoint(), 4096);
    virtual_time.turn_until([this] { return server->metrics().accepted == 1; });
    virtual_time.settle();
  }
  // Reads more than the kernel can buffer, so that the peer has acknowledged some bytes.
  void read_some_of_it() {
    const std::size_t enough = std::min(client->text.size() + 100'000, text.size());
    virtual_time.turn_until([&] {
      client->receive_some();
      return client->ended || client->text.size() >= enough;
    });
  }
  void read_all_in_steps_of(std::chrono::nanoseconds elapsed) {
    while (!client->ended && client->text.size() < text.size()) {
      read_some_of_it();
      virtual_time.advance(elapsed);
      virtual_time.settle();
    }
  }
  // The peer takes nothing for four times `quarter`.
  void expect_end_in_vain(std::chrono::nanoseconds quarter, gyre::io::errc why) {
    for (int quarters = 0; quarters < 3; ++quarters) {
      virtual_time.advance(quarter);
      virtual_time.settle();
    }
    EXPECT_FALSE(end) << "before its time";
    // Bytes on their way may have been acknowledged in some of these.
    for (int quarters = 0; quarters < 1000 && !end; ++quarters) {
      virtual_time.advance(quarter + 1ms);
      virtual_time.settle();
    }
    EXPECT_EQ(end, std::error_code(why));
  }
  void expect_stop_while_reading() {
    bool stopped = false;
    server->stop(2s, [&] { stopped = true; });
    for (int reads = 0; reads < 4; ++reads) {
      EXPECT_FALSE(stopped) << "before its time";
      read_some_of_it();
      virtual_time.advance(501ms);
      virtual_time.settle();
    }
    EXPECT_TRUE(stopped);
  }

  const std::string text = long_text(1'500'000);
  gyre::test::io_in_virtual_time virtual_time;
  std::optional<tcp_server> server;
  std::optional<peer> client;
  std::optional<std::error_code> end;
};

class ClosedTcpConnection : public TcpConnectionToASlowPeer {
 protected:
  void close_one(gyre::net::connection_options how) {
    open(how, [](tcp_connection& c) { c.close(); });
  }
};

TEST_F(ClosedTcpConnection, SendsEverythingToAPeerThatReadsSlowly) {
  close_one({.close_timeout = 1s});
  read_all_in_steps_of(400ms);
  EXPECT_TRUE(client->text == text) << client->text.size() << " bytes came";
  EXPECT_EQ(client->error, 0) << "the connection was reset";
  client->close();
  virtual_time.turn_until([&] { return end.has_value(); });
  EXPECT_FALSE(*end) << end->message();
}

TEST_F(ClosedTcpConnection, EndsWhenThePeerTakesNothingForTheTimeout) {
  close_one({.close_timeout = 1s});
  read_some_of_it();
  expect_end_in_vain(250ms, gyre::io::errc::close_timeout);
}

TEST_F(ClosedTcpConnection, EndsAtTheLimitThoughThePeerGoesOnReading) {
  close_one({.close_timeout = 1s, .close_limit = 2s});
  for (int reads = 0; reads < 4; ++reads) {
    EXPECT_FALSE(end) << "before its time";
    read_some_of_it();
    virtual_time.advance(501ms);
    virtual_time.settle();
  }
  EXPECT_EQ(end, std::error_code(gyre::io::errc::close_timeout));
}

TEST_F(ClosedTcpConnection, EndsWithItsServersDeadlineThoughThePeerGoesOnReading) {
  close_one({.close_timeout = 1s});
  expect_stop_while_reading();
}

class TcpConnectionClosedWhenSent : public TcpConnectionToASlowPeer {
 protected:
  void close_one() {
    open({.write_timeout = 4s, .close_timeout = 1s, .close_limit = 6s}, [](tcp_connection& c) {
      c.close_when_sent();
      EXPECT_FALSE(c.send("no more"));
      c.close_when_sent();
    });
  }
};

TEST_F(TcpConnectionClosedWhenSent, SendsEverythingHoweverLongThePeerReads) {
  close_one();
  read_all_in_steps_of(900ms);
  EXPECT_TRUE(client->text == text) << client->text.size() << " bytes came";
  virtual_time.turn_until([&] {
    client->receive();
    return client->ended;
  });
  EXPECT_EQ(client->error, 0) << "the connection was reset";
  client->close();
  virtual_time.turn_until([&] { return end.has_value(); });
  EXPECT_FALSE(*end) << end->message();
}

TEST_F(TcpConnectionClosedWhenSent, DoesNotAwaitThePeersEndLongerThanClose) {
  close_one();
  read_all_in_steps_of(900ms);
  // An acknowledgement on its way may count as progress, but not beyond close_limit.
  for (int quarters = 0; quarters < 25 && !end; ++quarters) {
    virtual_time.advance(251ms);
    virtual_time.settle();
  }
  EXPECT_TRUE(end);
}

TEST_F(TcpConnectionClosedWhenSent, EndsWhenThePeerTakesNothingForTheWriteTimeout) {
  close_one();
  expect_end_in_vain(1s, gyre::io::errc::write_timeout);
}

TEST_F(TcpConnectionClosedWhenSent, CloseMeanwhileHasItsOwnTimeLimit) {
  open({.write_timeout = 1s, .close_timeout = 4s}, [](tcp_connection& c) {
    c.close_when_sent();
    c.close();
  });
  expect_end_in_vain(1s, gyre::io::errc::close_timeout);
}

TEST_F(TcpConnectionClosedWhenSent, EndsWithItsServersDeadlineThoughThePeerGoesOnReading) {
  close_one();
  expect_stop_while_reading();
}

class TcpConnectionWithOutput : public TcpConnectionToASlowPeer {
 protected:
  void open_one(gyre::net::connection_options how) {
    open(how, [](tcp_connection&) {});
  }
  void pass(std::chrono::nanoseconds elapsed) {
    virtual_time.advance(elapsed);
    virtual_time.settle();
  }
};

TEST_F(TcpConnectionWithOutput, EndsWhenThePeerTakesNothingForTheTimeout) {
  open_one({.write_timeout = 4s});
  for (int quarters = 0; quarters < 3; ++quarters) pass(1000ms);
  EXPECT_FALSE(end) << "before its time";
  // Bytes on their way may have been acknowledged in some of these.
  for (int quarters = 0; quarters < 1000 && !end; ++quarters) {
    client->send("it goes on asking");
    pass(1001ms);
  }
  EXPECT_EQ(end, std::error_code(gyre::io::errc::write_timeout));
}

TEST_F(TcpConnectionWithOutput, IsLimitedByDefault) {
  open_one({});
  for (int quarters = 0; quarters < 1000 && !end; ++quarters) pass(15'001ms);
  EXPECT_EQ(end, std::error_code(gyre::io::errc::write_timeout));
}

TEST_F(TcpConnectionWithOutput, StaysWhileThePeerTakesSome) {
  open_one({.write_timeout = 4s});
  while (client->text.size() < text.size()) {
    read_some_of_it();
    for (int quarters = 0; quarters < 3; ++quarters) pass(1001ms);
    ASSERT_FALSE(end) << end->message();
  }
  EXPECT_TRUE(client->text == text);
  for (int quarters = 0; quarters < 20; ++quarters) pass(1001ms);
  EXPECT_FALSE(end) << "nothing waits";
}

TEST_F(TcpConnectionWithOutput, IsNotIdleWhileThePeerTakesSome) {
  open_one({.idle_timeout = 4s, .write_timeout = 0s});
  while (client->text.size() < text.size()) {
    read_some_of_it();
    for (int times = 0; times < 3; ++times) pass(1001ms);
    ASSERT_FALSE(end) << end->message();
  }
}

// The kernel counts a Unix socket's pending output in pieces: a piece is pending until its last
// byte is read.
constexpr std::size_t most_of_unix_piece = 40'000;

// A slow peer on a Unix socket, where bytes are acknowledged only when they are read.
class UnixConnectionToASlowPeer : public TcpConnectionToASlowPeer {
 protected:
  void open_local(gyre::net::connection_options how, bool closes) {
    auto [own, other] = gyre::net::socket_pair();
    server.emplace(virtual_time.loop, tcp_server_options{.connections = how});
    server->on_connection([this, closes](tcp_connection& c) {
      limit_kernel_buffer(c);
      c.send(text);
      ASSERT_GT(c.pending_output(), 0u);
      if (closes) c.close();
    });
    server->on_close([this](tcp_connection&, std::error_code why) { end = why; });
    server->adopt(own.release());
    client.emplace(std::move(other));
    virtual_time.settle();
  }
  void read(std::size_t bytes) {
    std::string part(bytes, '\0');
    const ssize_t came = ::recv(client->fd(), part.data(), part.size(), 0);
    ASSERT_GT(came, 0);
    client->text.append(part, 0, static_cast<std::size_t>(came));
  }
  void pass(std::chrono::nanoseconds elapsed) {
    virtual_time.advance(elapsed);
    virtual_time.settle();
  }
};

TEST_F(UnixConnectionToASlowPeer, EndsWhenItTakesNothingForTheTimeout) {
  open_local({.write_timeout = 4s}, false);
  for (int seconds = 0; seconds < 3; ++seconds) pass(1001ms);
  EXPECT_FALSE(end) << "before its time";
  for (int seconds = 0; seconds < 2; ++seconds) pass(1001ms);
  EXPECT_EQ(end, std::error_code(gyre::io::errc::write_timeout));
}

TEST_F(UnixConnectionToASlowPeer, EndsWhenItTakesNoMoreForTheTimeout) {
  open_local({.write_timeout = 4s}, false);
  read(most_of_unix_piece);
  for (int seconds = 0; seconds < 3; ++seconds) pass(1001ms);
  EXPECT_FALSE(end) << "before its time";
  for (int seconds = 0; seconds < 3; ++seconds) pass(1001ms);
  EXPECT_EQ(end, std::error_code(gyre::io::errc::write_timeout));
}

TEST_F(UnixConnectionToASlowPeer, StaysWhileItTakesAPieceWithinTheTimeout) {
  open_local({.write_timeout = 4s}, false);
  while (client->text.size() < text.size()) {
    read(most_of_unix_piece);
    for (int seconds = 0; seconds < 3; ++seconds) pass(1001ms);
    ASSERT_FALSE(end) << end->message() << " after " << client->text.size();
  }
  EXPECT_TRUE(client->text == text);
  for (int seconds = 0; seconds < 20; ++seconds) pass(1001ms);
  EXPECT_FALSE(end) << "nothing waits";
}

TEST_F(UnixConnectionToASlowPeer, IsNotIdleWhileItTakesPieces) {
  open_local({.idle_timeout = 4s, .write_timeout = 0s}, false);
  while (client->text.size() < text.size()) {
    read(most_of_unix_piece);
    for (int seconds = 0; seconds < 3; ++seconds) pass(1001ms);
    ASSERT_FALSE(end) << end->message() << " after " << client->text.size();
  }
}

TEST_F(UnixConnectionToASlowPeer, GetsEverythingFromOneThatCloses) {
  open_local({.close_timeout = 4s}, true);
  while (client->text.size() < text.size()) {
    read(most_of_unix_piece);
    for (int seconds = 0; seconds < 3; ++seconds) pass(1001ms);
    ASSERT_FALSE(end && *end) << end->message() << " after " << client->text.size();
  }
  EXPECT_TRUE(client->text == text);
}

TEST_F(UnixConnectionToASlowPeer, IsLeftByOneThatClosesWhenItTakesNothing) {
  open_local({.close_timeout = 4s}, true);
  for (int seconds = 0; seconds < 5; ++seconds) pass(1001ms);
  EXPECT_EQ(end, std::error_code(gyre::io::errc::close_timeout));
}

TEST_F(TcpConnectionWithOutput, MayWaitForEverIfItIsTo) {
  open_one({.idle_timeout = 0s, .write_timeout = 0s});
  for (int hours = 0; hours < 20; ++hours) pass(1h);
  EXPECT_FALSE(end);
}

TEST_F(TcpConnection, CloseDoesNotWaitLongForThePeersEnd) {
  start();
  peer client = connect();
  connection->close(std::chrono::hours(1));
  connection->close(10ms);
  connection->close();  // does not extend the limit
  wait_for_end();
  EXPECT_FALSE(ends[0]) << "all had been sent: " << ends[0].message();
  EXPECT_TRUE(client.receive_end(loop));
}

TEST_F(TcpConnection, AbortResets) {
  start();
  peer client = connect();
  connection->send(long_text(1'200'000));
  tcp_connection& aborted = *connection;
  aborted.abort();
  aborted.abort();
  aborted.close();
  EXPECT_FALSE(aborted.send("no"));
  EXPECT_EQ(aborted.fd(), -1);
  EXPECT_TRUE(ends.empty()) << "not within abort()";
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::connection_aborted);
  EXPECT_EQ(ends[0], gyre::io::errc::aborted);
  client.receive(loop, std::string::npos);
  EXPECT_EQ(client.error, ECONNRESET);
}

// Pitfall: EPIPE drops data silently.
TEST_F(TcpConnection, SendingToWhoHasGoneIsReported) {
  start();
  for (const bool reset : {false, true}) {
    ends.clear();
    peer client = connect();
    connection->pause_reading();  // so that only sending can fail
    reset ? client.reset() : client.close();
    turn_until(loop, [&] { return connection == nullptr || !connection->send("anybody?"); });
    wait_for_end();
    EXPECT_THAT(ends[0].value(), testing::AnyOf(EPIPE, ECONNRESET));
  }
}

// A peer that answers without reading everything, and closes, resets the connection; recv() still
// returns the answer.
TEST_F(TcpConnection, AnAnswerIsHeardThoughSendingFails) {
  std::string heard;
  int completions = 0;
  server->on_message([&](tcp_connection&, input& in) {
    heard += in.text();
    in.consume_all();
  });
  server->on_write_complete([&](tcp_connection&) { ++completions; });
  server->on_peer_ended([](tcp_connection&) { ADD_FAILURE() << "it receives no more either"; });
  start();
  for (const bool waiting : {false, true}) {
    heard.clear();
    ends.clear();
    peer client = connect();
    EXPECT_TRUE(connection->send(waiting ? long_text(1'500'000) : "request"));
    client.send("too large");
    client.close();
    if (!waiting) {
      while (connection->send("more")) {
      }
      EXPECT_TRUE(connection->is_open());
      EXPECT_FALSE(connection->can_send());
      EXPECT_FALSE(connection->send("no more"));
      connection->shutdown_send();
      connection->set_idle_timeout(std::chrono::hours(1));
    }
    wait_for_end();
    EXPECT_EQ(heard, "too large") << waiting;
    EXPECT_THAT(ends[0].value(), testing::AnyOf(EPIPE, ECONNRESET));
  }
  EXPECT_EQ(completions, 0);
}

// Sending fails, which reading does not report.
class TcpConnectionThatCannotSend : public TcpConnection {
 protected:
  void make_one(std::chrono::nanoseconds close_timeout) {
    make({.connections = {.close_timeout = close_timeout}});
    server->on_message([this](tcp_connection& c, input& in) {
      heard += in.text();
      in.consume_all();
      if (heard == "pause") c.pause_reading();
      if (heard == "close") c.close();
    });
    auto [served, other] = gyre::net::socket_pair();
    server->adopt(served.release());
    turn_until(loop, [&] { return connection != nullptr; });
    other.shutdown(gyre::net::shutdown_side::receive);
    client.emplace(std::move(other));
    EXPECT_FALSE(connection->send("nobody reads that"));
    settle(loop);
    EXPECT_TRUE(ends.empty());
  }
  void hear(const char* text) {
    client->send(text);
    turn_until(loop, [&] { return heard == text; });
  }
  void expect_the_end() {
    wait_for_end();
    EXPECT_EQ(ends[0], std::errc::broken_pipe);
  }

  std::string heard;
  std::optional<peer> client;
};

TEST_F(TcpConnectionThatCannotSend, ReceivesForAWhile) {
  make_one(100ms);
  hear("still there");
  expect_the_end();
}

TEST_F(TcpConnectionThatCannotSend, EndsThoughItIsPaused) {
  make_one(100ms);
  hear("pause");
  expect_the_end();
}

TEST_F(TcpConnectionThatCannotSend, EndsAtOnceWhenItIsClosed) {
  make_one(std::chrono::hours(1));
  hear("close");
  expect_the_end();
}

TEST_F(TcpConnectionThatCannotSend, EndsWithItsPeer) {
  make_one(std::chrono::hours(1));
  client->close();
  expect_the_end();
}

TEST_F(TcpConnectionThatCannotSend, EndsWithItsServer) {
  make_one(std::chrono::hours(1));
  bool stopped = false;
  server->stop(std::chrono::hours(1), [&] { stopped = true; });
  expect_the_end();
  EXPECT_TRUE(stopped);
}

TEST_F(TcpConnection, APeerMayResetAtEveryStep) {
  std::string request;
  server->on_message([&](tcp_connection& c, input& in) {
    c.send(in.bytes());
    in.consume_all();
    c.send(long_text(1'000'000));
    c.close();
  });
  start();
  const auto accepted = [&] { return server->metrics().accepted; };
  for (const char* sent : {"", "x"}) {
    peer client(server->local_endpoint());
    client.send(sent);
    client.reset();  // before it is accepted: the server may skip it
    settle(loop);
  }
  for (int step = 1; step < 5; ++step) {
    const std::size_t before = ends.size();
    const auto had = accepted();
    peer client(server->local_endpoint());
    if (step >= 2) client.send("x");
    turn_until(loop, [&] { return accepted() > had; });
    if (step == 3) client.receive(loop, 1);
    if (step == 4) client.receive(loop, 1'000'001);
    client.reset();
    turn_until(loop, [&] { return ends.size() > before; });
  }
  turn_until(loop, [&] { return server->metrics().connections == 0; });
  EXPECT_EQ(ends.size(), accepted());
  EXPECT_EQ(ends.size(), static_cast<std::size_t>(connects));
}

TEST_F(TcpConnection, HalfClosedByThePeerItStillSends) {
  int told = 0;
  server->on_peer_ended([&](tcp_connection& c) {
    ++told;
    EXPECT_TRUE(c.send(long_text(1'000'000)));
  });
  start();
  peer client = connect();
  client.end_sending();
  client.receive(loop, 1'000'000);
  EXPECT_FALSE(client.ended);
  EXPECT_EQ(told, 1);
  connection->close();
  EXPECT_TRUE(client.receive_end(loop));
  wait_for_end();
  EXPECT_FALSE(ends[0]);
}

TEST_F(TcpConnection, HalfClosedHereItStillReceives) {
  std::string seen;
  server->on_message([&](tcp_connection&, input& in) {
    seen += in.text();
    in.consume_all();
  });
  server->on_peer_ended([](tcp_connection&) {});
  start();
  peer client = connect();
  const std::string text = long_text(1'000'000);
  connection->send(text);
  connection->shutdown_send();
  connection->shutdown_send();
  EXPECT_FALSE(connection->send("no"));
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, text);
  client.send("still heard");
  turn_until(loop, [&] { return seen == "still heard"; });
  EXPECT_TRUE(connection->is_open());
  client.end_sending();
  wait_for_end();
  EXPECT_FALSE(ends[0]);
}

TEST_F(TcpConnection, NothingSentIsNothingCompleted) {
  int completions = 0;
  server->on_write_complete([&](tcp_connection&) { ++completions; });
  server->on_peer_ended([](tcp_connection&) {});
  start();
  peer client = connect();
  connection->shutdown_send();
  EXPECT_TRUE(client.receive_end(loop));
  settle(loop);
  EXPECT_EQ(completions, 0);
  EXPECT_TRUE(connection->is_open());
  client.end_sending();
  wait_for_end();
  EXPECT_FALSE(ends[0]);
}

TEST_F(TcpConnection, IdleOnesAreEnded) {
  make({.connections = {.idle_timeout = 100ms}});
  server->on_message(&echo);
  start();
  peer client = connect();
  gyre::steady_time last;
  for (std::size_t i = 1; i <= 6; ++i) {  // longer than the timeout in all
    loop.run_for(25ms);
    EXPECT_TRUE(ends.empty());
    client.send("x");
    last = loop.now();
    client.receive(loop, i);
  }
  wait_for_end();
  EXPECT_EQ(ends[0], gyre::io::errc::idle_timeout);
  EXPECT_EQ(ends[0], std::errc::timed_out);
  EXPECT_GE(loop.now() - last, 75ms);
  EXPECT_TRUE(client.receive_end(loop));
}

class IdleTcpConnections : public testing::Test {
 protected:
  void start(gyre::net::connection_options how) {
    server.emplace(virtual_time.loop, tcp_server_options{.connections = how});
    server->on_connection([this](tcp_connection& c) { opened.push_back(&c); });
    server->on_message(&echo);
    server->on_close([this](tcp_connection&, std::error_code why) { ends.push_back(why); });
    server->listen(any_port());
    server->start();
  }
  peer connect() {
    const std::size_t before = opened.size();
    peer made(server->local_endpoint());
    virtual_time.turn_until([&] { return opened.size() > before; });
    return made;
  }
  // Passes the time in steps so small that each part of the connections is checked in time.
  void pass(std::chrono::nanoseconds elapsed) {
    constexpr int pieces = 1000;
    for (int i = 0; i < pieces; ++i) {
      virtual_time.advance(elapsed / pieces);
      virtual_time.settle();
    }
  }

  gyre::test::io_in_virtual_time virtual_time;
  std::optional<tcp_server> server;
  std::vector<tcp_connection*> opened;
  std::vector<std::error_code> ends;
};

TEST_F(IdleTcpConnections, AServerEndsThemByDefault) {
  start({});
  std::vector<peer> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(connect());
  pass(9min);
  EXPECT_TRUE(ends.empty());
  std::string expected;
  for (peer& each : clients) {
    if (&each == &clients.front()) continue;
    each.send("x");
    virtual_time.turn_until([&] {
      each.receive();
      return each.text == "x";
    });
  }
  pass(5min);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0], gyre::io::errc::idle_timeout);
  pass(4min);
  EXPECT_EQ(ends.size(), 1u);
  pass(4min);
  EXPECT_EQ(ends.size(), 50u);
}

TEST_F(IdleTcpConnections, MayHaveTimesOfTheirOwn) {
  start({.idle_timeout = 4s});
  const peer patient = connect();
  const peer eternal = connect();
  const peer hasty = connect();
  const peer usual = connect();
  opened[0]->set_idle_timeout(20s);
  opened[1]->set_idle_timeout(0s);
  opened[2]->set_idle_timeout(400ms);
  pass(2s);
  EXPECT_EQ(ends.size(), 1u);
  pass(4s);
  EXPECT_EQ(ends.size(), 2u);
  pass(26s);
  EXPECT_EQ(ends.size(), 3u);
  pass(1h);
  EXPECT_EQ(ends.size(), 3u);
}

TEST_F(IdleTcpConnections, StayIfTheyMay) {
  start({.idle_timeout = 0s});
  const peer client = connect();
  pass(100h);
  EXPECT_TRUE(ends.empty());
}

TEST_F(TcpConnection, KeepsWhatTheProgramWantsToKeepWithIt) {
  start();
  peer client = connect();
  EXPECT_EQ(connection->context<int>(), nullptr);
  const auto held = std::make_shared<int>(7);
  connection->context() = held;
  EXPECT_EQ(*connection->context<std::shared_ptr<int>>(), held);
  EXPECT_EQ(connection->context<int>(), nullptr);
  EXPECT_EQ(held.use_count(), 2);
  connection->abort();
  wait_for_end();
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(TcpConnection, KeepsAValueThatCannotBeCopied) {
  struct session {
    std::unique_ptr<int> number;
    std::string name;
  };
  start();
  peer client = connect();
  connection->context() = std::make_unique<int>(7);
  EXPECT_EQ(**connection->context<std::unique_ptr<int>>(), 7);
  connection->context() = session{.number = std::make_unique<int>(8), .name = "guest"};
  EXPECT_EQ(connection->context<std::unique_ptr<int>>(), nullptr);
  EXPECT_EQ(*connection->context<session>()->number, 8);
  EXPECT_EQ(connection->context().emplace<session>().number, nullptr);
  connection->context().reset();
  EXPECT_FALSE(connection->context().has_value());
}

TEST_F(TcpConnection, AnExceptionEndsItAndGoesToTheLoop) {
  server->on_message([](tcp_connection&, input&) { throw std::runtime_error("message"); });
  start();
  peer client = connect();
  client.send("x");
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::connection_aborted);
  EXPECT_EQ(thrown.size(), 1u);
  peer next = connect();  // the server continues
}

TEST_F(TcpConnection, AnExceptionOfTheLastCallIsNoLeak) {
  server->on_close([](tcp_connection&, std::error_code) { throw std::runtime_error("closed"); });
  start();
  peer client = connect();
  client.close();
  turn_until(loop, [&] { return !thrown.empty(); });
  EXPECT_EQ(server->metrics().connections, 0u);
}

TEST_F(TcpConnection, OtherThreadsSendThroughReferences) {
  start();
  peer client = connect();
  const tcp_connection_ref ref = connection->ref();
  const tcp_connection_ref same = connection->ref();
  EXPECT_EQ(ref, same);
  EXPECT_EQ(ref.get(), connection);
  {
    std::vector<std::jthread> senders;
    for (int i = 0; i < 3; ++i) {
      senders.emplace_back([ref] {
        for (int n = 0; n < 100; ++n) EXPECT_TRUE(ref.send("0123456789"));
      });
    }
    client.receive(loop, 3000);
  }
  std::string expected;
  for (int i = 0; i < 300; ++i) expected += "0123456789";
  EXPECT_EQ(client.text, expected);
  std::jthread([ref] {
    EXPECT_TRUE(ref.post([](tcp_connection& c) { c.send("last"); }));
    EXPECT_TRUE(ref.close());
  }).join();
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, expected + "last");
  client.close();
  wait_for_end();
  EXPECT_FALSE(ref.alive());
  EXPECT_EQ(ref.get(), nullptr);
  EXPECT_FALSE(ref.send("no"));
  EXPECT_FALSE(ref.close());
  EXPECT_FALSE(ref.post([](tcp_connection&) { FAIL(); }));
  EXPECT_FALSE(tcp_connection_ref().alive());
}

TEST_F(TcpConnection, OtherThreadsSendNoFasterThanTheLoopTakesIt) {
  make({.connections = {.output_limit = 10'000}});
  start();
  peer client = connect();
  const tcp_connection_ref ref = connection->ref();
  for (std::size_t round = 0; round < 2; ++round) {
    EXPECT_FALSE(ref.send(std::string(10'001, 'x')));
    EXPECT_TRUE(ref.send(std::string(10'000, 'x'))) << "nothing waits";
    EXPECT_FALSE(ref.send("x"));
    EXPECT_EQ(client.receive(loop, round * 17'000 + 10'000).size(), round * 17'000 + 10'000);
    settle(loop);
    EXPECT_TRUE(ref.send(std::string(4'000, 'x')));
    EXPECT_FALSE(ref.send(std::string(6'000, 'x')));
    gyre::io::buffer rest;
    rest.append(std::string(3'000, 'x'));
    EXPECT_TRUE(ref.send(std::move(rest)));
    EXPECT_FALSE(ref.send("x"));
    EXPECT_EQ(client.receive(loop, (round + 1) * 17'000).size(), (round + 1) * 17'000);
    settle(loop);
  }
  EXPECT_TRUE(ref.send("x"));
  connection->abort();
  settle(loop);
  EXPECT_FALSE(ref.send("x"));
}

TEST_F(TcpConnection, OtherThreadsPostNoFasterThanTheLoopTakesIt) {
  make({.connections = {.output_limit = 10'000}});
  start();
  peer client = connect();
  const tcp_connection_ref ref = connection->ref();
  for (int round = 0; round < 2; ++round) {
    int called = 0;
    int accepted = 0;
    while (accepted < 1000 && ref.post([&](tcp_connection&) { ++called; })) ++accepted;
    EXPECT_GE(accepted, 5);
    EXPECT_LE(accepted, 10);
    EXPECT_FALSE(ref.send("x")) << "it is one limit";
    settle(loop);
    EXPECT_EQ(called, accepted);
  }
}

TEST_F(TcpConnection, EndsOfOtherThreadsArePostedOnce) {
  make({.connections = {.output_limit = 10'000}});
  start();
  peer client = connect();
  const tcp_connection_ref ref = connection->ref();
  while (ref.send("x")) {
  }
  const std::size_t before = loop.metrics().tasks_pending;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(ref.close());
    EXPECT_TRUE(ref.abort());
  }
  EXPECT_EQ(loop.metrics().tasks_pending, before + 2);
  wait_for_end();
  EXPECT_EQ(ends[0], std::errc::connection_aborted);
  EXPECT_FALSE(ref.close());
}

TEST_F(TcpConnection, TasksPostedToAConnectionThatEndsMeanwhileAreDropped) {
  start();
  peer client = connect();
  const tcp_connection_ref ref = connection->ref();
  EXPECT_TRUE(ref.post([](tcp_connection&) { FAIL() << "it has ended"; }));
  connection->abort();
  wait_for_end();
  settle(loop);
}

// Pitfalls: the read callback frees the channel, whose write callback is then read; a second close;
// close inside every callback.
enum class moment { connected, message, write_complete, high_water, low_water, peer_ended, closed };
enum class deed { close, abort, destroy_server, stop_server, send, pause };

class TcpConnectionCallback : public TcpConnection,
                              public testing::WithParamInterface<std::tuple<moment, deed>> {
 protected:
  void act(tcp_connection& c, moment now) {
    const auto [when, what] = GetParam();
    if (now != when || acted) return;
    acted = true;
    switch (what) {
      case deed::close: c.close(); break;
      case deed::abort: c.abort(); break;
      case deed::destroy_server: server.reset(); break;
      case deed::stop_server: server->stop(10ms); break;
      case deed::send: c.send("sent in a callback"); break;
      case deed::pause: c.pause_reading(); break;
    }
    // The connection still exists.
    c.send("and after that");
    c.close();
  }
  bool acted = false;
};

TEST_P(TcpConnectionCallback, MayDoAnything) {
  make({.connections = {.high_water = 1'000'000, .low_water = 10'000, .close_timeout = 10ms}});
  static const std::string much = long_text(2'000'000);
  int closes = 0;
  server
      ->on_connection([&](tcp_connection& c) {
        limit_kernel_buffer(c);
        act(c, moment::connected);
      })
      .on_message([&](tcp_connection& c, input& in) {
        const std::string text(in.text());
        act(c, moment::message);
        EXPECT_EQ(in.text(), text) << "what came is still there";
        in.consume_all();
        c.send(much);
      })
      .on_write_complete([&](tcp_connection& c) {
        act(c, moment::write_complete);
        c.close();
      })
      .on_high_water([&](tcp_connection& c, std::size_t) { act(c, moment::high_water); })
      .on_low_water([&](tcp_connection& c) { act(c, moment::low_water); })
      .on_peer_ended([&](tcp_connection& c) { act(c, moment::peer_ended); })
      .on_close([&](tcp_connection& c, std::error_code) {
        ++closes;
        act(c, moment::closed);
      });
  start();
  peer client(server->local_endpoint());
  client.send("x");
  client.end_sending();
  client.receive(loop, std::string::npos);  // until the connection ends in any way
  turn_until(loop, [&] { return acted; });
  if (std::get<1>(GetParam()) == deed::destroy_server) {
    settle(loop);
    EXPECT_EQ(closes, std::get<0>(GetParam()) == moment::closed ? 1 : 0);
  } else {
    turn_until(loop, [&] { return closes == 1; });
    settle(loop);
    EXPECT_EQ(closes, 1);
    EXPECT_EQ(server->metrics().connections, 0u);
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<moment, deed>>& tested) {
  static const std::vector<std::string> moments = {
      "Connected", "Message", "WriteComplete", "HighWater", "LowWater", "PeerEnded", "Closed"};
  static const std::vector<std::string> deeds = {"Closes", "Aborts", "DestroysServer",
                                                 "Stops",  "Sends",  "Pauses"};
  return moments[static_cast<std::size_t>(std::get<0>(tested.param))] +
         deeds[static_cast<std::size_t>(std::get<1>(tested.param))];
}

INSTANTIATE_TEST_SUITE_P(
    , TcpConnectionCallback,
    testing::Combine(testing::Values(moment::connected, moment::message, moment::write_complete,
                                     moment::high_water, moment::low_water, moment::peer_ended,
                                     moment::closed),
                     testing::Values(deed::close, deed::abort, deed::destroy_server,
                                     deed::stop_server, deed::send, deed::pause)),
    &name_of);

}  // namespace
}  // namespace tcp_connection_test
