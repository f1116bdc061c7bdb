// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_server.hpp>

#include <gyre/exec/loop_thread.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/udp_client.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <tests/support/lockstep_loop.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace udp_server_test {
namespace {

using namespace gyre::net::test;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::udp_client;
using gyre::net::udp_server;
using gyre::net::udp_server_options;
using bytes = std::span<const std::byte>;

std::string text_of(bytes from) {
  return {reinterpret_cast<const char*>(from.data()), from.size()};
}

void echo(udp_server::channel& by, bytes question, const endpoint& from) {
  EXPECT_TRUE(by.send_to(question, from));
}

class UdpServer : public testing::Test {
 protected:
  void start(udp_server_options how = {}, endpoint at = any_port()) {
    start_with(
        [this](udp_server::channel& by, bytes datagram, const endpoint& from) {
          seen.push_back(text_of(datagram));
          echo(by, datagram, from);
        },
        std::move(how), at);
  }
  void start_with(udp_server::datagram_function called, udp_server_options how = {},
                  endpoint at = any_port()) {
    server.emplace(loop, std::move(how));
    server->on_datagram(std::move(called));
    server->listen(at);
    server->start();
  }
  void wait_for(std::size_t datagrams) {
    turn_until(loop, [&] { return seen.size() >= datagrams; });
  }
  std::optional<std::string> answer(udp_client& client) {
    const std::optional<gyre::io::buffer> got = client.receive(10s);
    if (!got) return std::nullopt;
    return std::string(got->text());
  }

  std::vector<std::exception_ptr> thrown;
  gyre::loop loop{gyre::loop_options{
      .on_exception = [this](std::exception_ptr error) { thrown.push_back(std::move(error)); }}};
  std::optional<udp_server> server;
  std::vector<std::string> seen;
};

// Regression: the kernel chose the address, and clients that asked another one dropped the reply.
TEST_F(UdpServer, RepliesFromTheAddressThatWasAsked) {
  for (const ip_address& all : {ip_address::any_v4(), ip_address::any_v6()}) {
    start({}, {all, 0});
    const std::uint16_t port = server->local_endpoint().port();
    std::vector<ip_address> asked{ip_address("127.0.0.1"), ip_address("127.0.0.2")};
    if (all.is_v6()) asked.push_back(ip_address::loopback_v6());
    for (const ip_address& each : asked) {
      seen.clear();
      udp_client client({each, port}, {each.is_v4() ? ip_address("127.0.0.1") : each, 0});
      client.send("x");
      wait_for(1);
      EXPECT_EQ(answer(client), "x") << each;
    }
  }
}

TEST_F(UdpServer, TellsTheAddressThatWasAskedAndMayReplyLater) {
  endpoint later;
  udp_server::channel* channel = nullptr;
  const auto keep = [&](udp_server::channel& by, bytes, const endpoint& from) {
    channel = &by;
    later = from;
  };
  start_with(keep, {}, {ip_address::any_v4(), 0});
  const ip_address asked("127.0.0.3");
  udp_client client({asked, server->local_endpoint().port()}, {ip_address::loopback_v4(), 0});
  client.send("x");
  turn_until(loop, [&] { return later.is_ip(); });
  EXPECT_EQ(later.source(), asked);
  EXPECT_EQ(later, client.local_endpoint());
  EXPECT_TRUE(channel->send_to("later", later));
  EXPECT_EQ(answer(client), "later");
}

TEST_F(UdpServer, NotesNoAddressesWhereItNeedNot) {
  endpoint from;
  const auto keep = [&](udp_server::channel&, bytes, const endpoint& peer) { from = peer; };
  start_with(keep);
  udp_client(server->local_endpoint()).send("x");
  turn_until(loop, [&] { return from.is_ip(); });
  EXPECT_EQ(from.source(), std::nullopt) << "it is bound to one";
  from = {};
  start_with(keep, {.packet_info = false}, {ip_address::any_v4(), 0});
  udp_client({ip_address::loopback_v4(), server->local_endpoint().port()}).send("x");
  turn_until(loop, [&] { return from.is_ip(); });
  EXPECT_EQ(from.source(), std::nullopt) << "the program does not want it";
}

TEST_F(UdpServer, AnswersEveryFamily) {
  for (const endpoint& at : {any_port(), endpoint(ip_address::loopback_v6(), 0)}) {
    seen.clear();
    start({.name = "echo"}, at);
    EXPECT_EQ(server->name(), "echo");
    udp_client client(server->local_endpoint());
    client.send("hello");
    wait_for(1);
    EXPECT_EQ(answer(client), "hello");
  }
  start({}, endpoint::unix_abstract("gyre-udp-server-test-" + std::to_string(::getpid())));
  udp_client client(server->local_endpoint(),
                    endpoint::unix_abstract("gyre-udp-client-test-" + std::to_string(::getpid())));
  seen.clear();
  client.send("hello");
  wait_for(1);
  EXPECT_EQ(answer(client), "hello");
}

TEST_F(UdpServer, ReplacesTheFileOfOneThatIsGoneAndOfNoOther) {
  const std::string path =
      testing::TempDir() + "gyre-udp-server-" + std::to_string(::getpid()) + ".socket";
  const endpoint where = endpoint::unix_path(path);
  start({}, where);
  EXPECT_THROW(udp_server(loop).listen(where), std::system_error) << "it is served";
  server.reset();
  settle(loop);
  ASSERT_EQ(::access(path.c_str(), F_OK), 0) << "its file stays";
  start({}, where);
  udp_client client(where, endpoint::unix_unnamed());
  client.send("hello");
  wait_for(1);
  EXPECT_EQ(answer(client), "hello");
  ::unlink(path.c_str());
}

TEST_F(UdpServer, DeliversEmptyDatagrams) {
  start();
  udp_client client(server->local_endpoint());
  for (const char* each : {"", "between", ""}) client.send(each);
  wait_for(3);
  EXPECT_THAT(seen, testing::ElementsAre("", "between", ""));
  for (const char* each : {"", "between", ""}) EXPECT_EQ(answer(client), each);
}

// Pitfall: an allocation and a system call per datagram, without recvmmsg.
TEST_F(UdpServer, TakesManyAtATimeAndForgetsNone) {
  start({.batch = 8});
  udp_client client(server->local_endpoint());
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back(std::to_string(i));
    client.send(expected.back());
  }
  const auto before = loop.metrics().turns;
  wait_for(100);
  EXPECT_LE(loop.metrics().turns - before, 10u);
  EXPECT_EQ(seen, expected);
  for (const std::string& each : expected) EXPECT_EQ(answer(client), each);
  EXPECT_EQ(server->metrics().received, 100u);
  EXPECT_EQ(server->metrics().sent, 100u);
  EXPECT_EQ(server->metrics().bytes_sent, server->metrics().bytes_received);
}

TEST_F(UdpServer, DropsAndCountsWhatIsTooLong) {
  start({.max_datagram = 10});
  udp_client client(server->local_endpoint());
  client.send("more than ten bytes");
  client.send("exactly 10");
  wait_for(1);
  EXPECT_THAT(seen, testing::ElementsAre("exactly 10"));
  EXPECT_EQ(server->metrics().truncated, 1u);
}

// No event reports room in the client's queue: epoll reports the socket as writable again and again
// although the queue is full.
TEST_F(UdpServer, IsNotHeldUpByAUnixClientWhoseQueueIsFull) {
  using gyre::net::socket;
  const auto open = [] {
    return socket::open(gyre::net::address_family::local, gyre::net::socket_type::datagram);
  };
  start({}, endpoint::unix_abstract("gyre-udp-server-full-" + std::to_string(::getpid())));
  const endpoint at = server->local_endpoint();
  const endpoint rude_at =
      endpoint::unix_abstract("gyre-udp-client-rude-" + std::to_string(::getpid()));
  const socket rude = open();
  rude.bind(rude_at);
  const auto send = [](const socket& by, const endpoint& to) {
    return ::sendto(by.fd(), "x", 1, 0, to.data(), to.size()) == 1;
  };
  for (int sent = 1; sent > 0;) {
    const socket other = open();  // since a sender's own buffer may be full first
    for (sent = 0; send(other, rude_at);) ++sent;
  }
  udp_client good(at,
                  endpoint::unix_abstract("gyre-udp-client-good-" + std::to_string(::getpid())));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(rude, at));
  good.send("hello");
  wait_for(4);
  EXPECT_EQ(answer(good), "hello");
  EXPECT_EQ(server->metrics().refused, 3u);
  EXPECT_EQ(server->metrics().sent, 1u);
}

TEST_F(UdpServer, EndsThoughAUnixClientDoesNotRead) {
  constexpr std::size_t many = 2000;
  start_with(
      [&](udp_server::channel& by, bytes, const endpoint& from) {
        for (std::size_t i = 0; i < many; ++i) EXPECT_TRUE(by.send_to("reply", from));
        seen.push_back("flood");
      },
      {}, endpoint::unix_abstract("gyre-udp-server-flood-" + std::to_string(::getpid())));
  udp_client rude(server->local_endpoint(),
                  endpoint::unix_abstract("gyre-udp-client-flood-" + std::to_string(::getpid())));
  rude.send("flood");
  wait_for(1);
  EXPECT_GT(server->metrics().refused, 0u);
  EXPECT_EQ(server->metrics().sent + server->metrics().refused, many);
  EXPECT_EQ(server->metrics().errors, 0u);
  for (int i = 0; i < 10; ++i) loop.poll();
  EXPECT_FALSE(loop.poll()) << "there is nothing to do";
  bool stopped = false;
  server->stop([&] { stopped = true; });
  for (int i = 0; i < 10; ++i) loop.poll();
  EXPECT_TRUE(stopped);
  std::size_t received = 0;
  while (rude.receive(0ns)) ++received;
  EXPECT_EQ(received, server->metrics().sent);
}

TEST_F(UdpServer, CountsRepliesThatTheKernelRefuses) {
  start_with([&](udp_server::channel& by, bytes, const endpoint& from) {
    by.send_to(std::string(100'000, 'x'), from);  // no datagram is that long
    by.send_to("but this", from);
  });
  udp_client client(server->local_endpoint());
  client.send("?");
  turn_until(loop, [&] { return server->metrics().sent == 1; });
  EXPECT_EQ(answer(client), "but this");
  EXPECT_EQ(server->metrics().errors, 1u);
}

TEST_F(UdpServer, GoesOnAfterAnException) {
  start_with([&](udp_server::channel&, bytes datagram, const endpoint&) {
    seen.push_back(text_of(datagram));
    throw std::runtime_error("datagram");
  });
  udp_client client(server->local_endpoint());
  for (int i = 1; i <= 3; ++i) {
    client.send("x");
    wait_for(static_cast<std::size_t>(i));
  }
  EXPECT_EQ(thrown.size(), 3u);
}

TEST_F(UdpServer, AnExceptionCostsNobodyElseAnAnswer) {
  start_with([&](udp_server::channel& by, bytes datagram, const endpoint& from) {
    seen.push_back(text_of(datagram));
    echo(by, datagram, from);
    if (seen.size() % 2 == 1) throw std::runtime_error("datagram");
  });
  udp_client client(server->local_endpoint());
  const std::vector<std::string> asked = {"1", "2", "3", "4", "5"};  // one batch
  for (const std::string& each : asked) client.send(each);
  wait_for(asked.size());
  EXPECT_EQ(seen, asked);
  for (const std::string& each : asked) EXPECT_EQ(answer(client), each);
  EXPECT_EQ(thrown.size(), 3u);
  EXPECT_EQ(server->metrics().received, asked.size());
  client.send("6");
  wait_for(6);
  EXPECT_EQ(answer(client), "6");
}

TEST_F(UdpServer, MayBeDestroyedByAFunctionThatThrows) {
  start_with([&](udp_server::channel&, bytes, const endpoint&) {
    server.reset();
    throw std::runtime_error("datagram");
  });
  udp_client client(server->local_endpoint());
  client.send("first");
  client.send("second");
  turn_until(loop, [&] { return !thrown.empty(); });
  settle(loop);
  EXPECT_EQ(thrown.size(), 1u);
}

TEST_F(UdpServer, MayBeDestroyedAndStoppedByItsFunction) {
  for (const bool destroy : {true, false}) {
    int called = 0;
    bool stopped = false;
    start_with([&](udp_server::channel& by, bytes datagram, const endpoint& from) {
      ++called;
      if (destroy) {
        server.reset();
        EXPECT_FALSE(by.send_to("no", from));
        EXPECT_EQ(datagram.size(), 5u) << "still there";
      } else {
        server->stop([&] { stopped = true; });
        EXPECT_TRUE(by.send_to("last", from));
      }
    });
    udp_client client(server->local_endpoint());
    client.send("first");
    turn_until(loop, [&] { return called > 0; });
    settle(loop);
    EXPECT_EQ(called, 1);
    EXPECT_EQ(stopped, !destroy);
    if (!destroy) {
      EXPECT_EQ(answer(client), "last");
    }
  }
}

TEST_F(UdpServer, MayBeDestroyedOrStoppedAtAnyTime) {
  server.emplace(loop);
  server.emplace(loop);
  server->listen(any_port());
  int stops = 0;
  server->stop([&] { ++stops; });
  server->stop([&] { ++stops; });
  server->start();
  turn_until(loop, [&] { return stops == 2; });
  server->stop([&] { ++stops; });
  turn_until(loop, [&] { return stops == 3; });
  start();
  start();
  settle(loop);
  EXPECT_THROW(server->start(), std::logic_error);
}

TEST_F(UdpServer, TellsThatItHasStoppedUnlessItIsDestroyed) {
  bool told = false;
  for (const bool listens : {false, true}) {
    server.emplace(loop);
    if (listens) server->listen(any_port());
    server->stop([&] { told = true; });
    server.reset();
    settle(loop);
    EXPECT_FALSE(told) << "behind the destructor";
    server.emplace(loop);
    if (listens) server->listen(any_port());
    server->stop([&] { server.reset(); });
    server->stop([&] { told = true; });
    turn_until(loop, [&] { return !server; });
    settle(loop);
    EXPECT_FALSE(told) << "behind the destructor";
  }
}

// The callback runs on the loop's thread before stop() has returned.
TEST(UdpServerStop, TheCallbackMayDestroyTheServerDuringTheCall) {
  for (const bool is_stopped : {false, true}) {
    gyre::test::lockstep_loop lockstep;
    auto server = std::make_unique<udp_server>(lockstep.loop, any_port());
    if (is_stopped) {
      std::promise<void> stopped;
      server->stop([&] { stopped.set_value(); });
      stopped.get_future().get();
    }
    lockstep.await_sleep();
    std::promise<void> destroyed;
    server->stop([&] {
      server.reset();
      destroyed.set_value();
    });
    destroyed.get_future().get();
  }
}

TEST_F(UdpServer, TellsEachThatItHasStoppedWhateverAnotherThrows) {
  start();
  int told = 0;
  for (int i = 0; i < 3; ++i) {
    server->stop([&] {
      ++told;
      throw std::runtime_error("done");
    });
  }
  turn_until(loop, [&] { return told > 0; });
  settle(loop);
  EXPECT_EQ(told, 3);
  EXPECT_EQ(thrown.size(), 3u);
}

TEST_F(UdpServer, TakesItsFunctionBeforeItStarts) {
  start();
  EXPECT_THROW(server->on_datagram(&echo), std::logic_error);
}

TEST_F(UdpServer, SaysThatItIsNotBoundYet) {
  server.emplace(loop);
  try {
    static_cast<void>(server->local_endpoint());
    FAIL() << "it has none";
  } catch (const std::out_of_range& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("listen()"));
  }
}

TEST(UdpServerOnLoops, RefusesNoneAndANullOne) {
  gyre::loop loop;
  EXPECT_THROW(udp_server(std::vector<gyre::event_loop*>()), std::invalid_argument);
  EXPECT_THROW(udp_server(std::vector<gyre::event_loop*>{&loop, nullptr}), std::invalid_argument);
}

TEST(UdpServerOnLoops, HasASocketOnEach) {
  gyre::loop_pool pool(2);
  std::atomic<int> on_loop[2] = {};
  std::optional<udp_server> server(std::in_place, pool);
  server->on_datagram([&](udp_server::channel& by, bytes datagram, const endpoint& from) {
    ++on_loop[&by.loop() == &pool[1] ? 1 : 0];
    echo(by, datagram, from);
  });
  server->listen(any_port());
  server->start();
  for (int i = 0; i < 40; ++i) {
    udp_client client(server->local_endpoint());
    const std::optional<gyre::io::buffer> got = client.ask("hello", 10s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->text(), "hello");
  }
  EXPECT_EQ(on_loop[0] + on_loop[1], 40);
  EXPECT_GT(on_loop[0], 0);
  EXPECT_GT(on_loop[1], 0);
  std::promise<void> stopped;
  server->stop([&] { stopped.set_value(); });
  ASSERT_EQ(stopped.get_future().wait_for(20s), std::future_status::ready);
}

TEST(UdpServerOnLoops, MayBeDestroyedWhileItIsBusy) {
  for (int round = 0; round < 5; ++round) {
    gyre::loop_pool pool(2);
    std::atomic<bool> over = false;
    std::atomic<int> answers = 0;
    std::optional<udp_server> server(std::in_place, pool);
    server->on_datagram([&](udp_server::channel& by, bytes datagram, const endpoint& from) {
      EXPECT_FALSE(over) << "a handler behind the destructor";
      ++answers;
      echo(by, datagram, from);
    });
    server->listen(any_port());
    server->start();
    std::vector<std::unique_ptr<udp_client>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<udp_client>(server->local_endpoint()));
    }
    for (auto& each : clients) {
      for (int n = 0; n < 20; ++n) each->send("x");
    }
    while (answers < 10) std::this_thread::yield();
    server.reset();
    over = true;
  }
}

TEST(UdpClient, GivesUpAtItsTimeout) {
  const gyre::net::socket silent =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
  silent.bind(any_port());
  udp_client client(silent.local_endpoint());
  EXPECT_FALSE(client.ask("anybody?", 5ms));
  EXPECT_FALSE(client.receive(0ns));
}

TEST(UdpClient, IsToldThatNobodyIsThere) {
  endpoint nobody;
  {
    const gyre::net::socket gone =
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
    gone.bind(any_port());
    nobody = gone.local_endpoint();
  }
  udp_client client(nobody);
  try {
    client.send("anybody?");
    static_cast<void>(client.receive(10s));
    FAIL() << "somebody answered";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::connection_refused);
  }
}

TEST(UdpClient, TakesNoLateAnswerForANewOneWhenAnErrorCameBetween) {
  using gyre::net::socket;
  socket server = socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
  server.bind(any_port());
  const endpoint at = server.local_endpoint();
  udp_client client(at);
  const endpoint to = client.local_endpoint();
  ASSERT_EQ(::sendto(server.fd(), "late", 4, 0, to.data(), to.size()), 4);
  server.close();
  client.send("nobody gets this");  // the next call would report the failure
  server = socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::datagram);
  server.bind(at);
  EXPECT_FALSE(client.ask("new", 0ns));
}

TEST(UdpClient, TakesNoLateAnswerForANewOne) {
  gyre::loop loop;
  udp_server server(loop);
  server.on_datagram(&echo);
  server.listen(any_port());
  server.start();
  settle(loop);
  udp_client client(server.local_endpoint());
  EXPECT_FALSE(client.ask("early", 0ns));
  loop.poll();
  loop.poll();
  EXPECT_FALSE(client.ask("late", 0ns)) << "the answer to the first is dropped";
}

}  // namespace
}  // namespace udp_server_test
