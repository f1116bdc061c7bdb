// SPDX-License-Identifier: Apache-2.0
// Tests of failing system calls and allocations in a udp_server and a udp_client: each failure is
// reported, and leaks nothing.
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/udp_client.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/full_inbox.hpp>
#include <tests/support/io_facts.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace udp_server_faults_test {
namespace {

using namespace gyre::net::test;
using gyre::net::endpoint;
using gyre::net::udp_client;
using gyre::net::udp_server;
using gyre::net::udp_server_options;
using gyre::testing::fault;
using gyre::testing::open_descriptors;
using bytes = std::span<const std::byte>;

int code_of(const std::function<void()>& action) {
  try {
    action();
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

// Makes the kernel report this process's socket at the address as writable, as after a full buffer.
void announce_room(const endpoint& local) {
  for (int fd = 0; fd < 1024; ++fd) {
    endpoint name;
    socklen_t size = endpoint::capacity();
    if (::getsockname(fd, name.data(), &size) != 0) continue;
    name.resize(size);
    const int room = 100'000;
    if (name == local) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  }
}

class UdpServerFaults : public testing::Test {
 protected:
  void start_with(udp_server::datagram_function called, udp_server_options how = {}) {
    server.emplace(loop, std::move(how));
    server->on_datagram(std::move(called));
    server->listen(any_port());
    server->start();
    settle(loop);
  }
  void start_echo() {
    start_with([](udp_server::channel& by, bytes datagram, const endpoint& from) {
      by.send_to(datagram, from);
    });
  }
  void stop() {
    bool stopped = false;
    server->stop([&] { stopped = true; });
    turn_until(loop, [&] { return stopped; });
  }

  std::vector<std::exception_ptr> thrown;
  gyre::loop loop{gyre::loop_options{
      .on_exception = [this](std::exception_ptr error) { thrown.push_back(std::move(error)); }}};
  std::optional<udp_server> server;
};

TEST_F(UdpServerFaults, RepliesWaitWhileTheKernelTakesNone) {
  for (const std::string& reply : {std::string("0123456789"), std::string()}) {
    int accepted = 0;
    start_with(
        [&](udp_server::channel& by, bytes, const endpoint& from) {
          while (accepted < 1000 && by.send_to(reply, from)) ++accepted;
        },
        {.output_limit = 20'000});
    const endpoint here = server->local_endpoint();
    udp_client client(here);
    client.send("go");
    std::optional<fault> full(std::in_place, "sendmmsg", EAGAIN, fault::plan{.times = -1});
    turn_until(loop, [&] { return accepted > 0; });
    EXPECT_GT(accepted, 64);
    EXPECT_LT(accepted, 200) << "replies take memory, empty ones too";
    EXPECT_EQ(server->metrics().refused, 1u);
    bool stopped = false;
    server->stop([&] { stopped = true; });
    settle(loop);
    EXPECT_FALSE(stopped) << "there are replies";
    full.reset();
    announce_room(here);
    turn_until(loop, [&] { return stopped; });
    int received = 0;
    while (client.receive(0ns)) ++received;
    EXPECT_EQ(received, accepted);
  }
}

TEST_F(UdpServerFaults, AReplyThatThereIsNoMemoryForIsNoReply) {
  constexpr std::size_t everything = std::numeric_limits<std::ptrdiff_t>::max();
  start_with(
      [&](udp_server::channel& by, bytes datagram, const endpoint& from) {
        EXPECT_TRUE(by.send_to("before", from));
        EXPECT_THROW(by.send_to({datagram.data(), everything}, from), std::length_error);
        EXPECT_TRUE(by.send_to("behind", from));
      },
      {.output_limit = std::numeric_limits<std::size_t>::max()});
  udp_client client(server->local_endpoint());
  client.send("?");
  turn_until(loop, [&] { return server->metrics().sent == 2; });
  EXPECT_EQ(client.receive(10s)->text(), "before");
  EXPECT_EQ(client.receive(10s)->text(), "behind");
  EXPECT_EQ(server->metrics().errors, 0u);
}

TEST_F(UdpServerFaults, ListenThrowsThem) {
  gyre::loop other;
  server.emplace(std::vector<gyre::event_loop*>{&loop, &other});
  const int before = open_descriptors();
  for (const auto& [call, error] :
       {std::pair("socket", EMFILE), std::pair("setsockopt", EPERM), std::pair("bind", EADDRINUSE),
        std::pair("getsockname", ENOBUFS)}) {
    for (const int after : {0, 1}) {
      const fault failing(call, error, {.after = after});
      EXPECT_EQ(code_of([&] { server->listen(any_port()); }), error) << call << ' ' << after;
      EXPECT_EQ(open_descriptors(), before) << call << ' ' << after;
    }
  }
  EXPECT_THROW(server->local_endpoint(), std::out_of_range);
  server->listen(any_port());
  EXPECT_EQ(open_descriptors(), before + 2);
  server.reset();
  settle(loop);
  settle(other);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(UdpServerFaults, TheLoopReportsAFailureToWatchTheSocket) {
  const char* const watch = gyre::test::facts_of(loop).watch;
  if (watch == nullptr) GTEST_SKIP() << "a loop on io_uring serves every socket";
  const int before = open_descriptors();
  const fault failing(watch, ENOSPC);
  start_echo();
  ASSERT_EQ(thrown.size(), 1u);
  EXPECT_EQ(code_of([&] { std::rethrow_exception(thrown.front()); }), ENOSPC);
  EXPECT_EQ(open_descriptors(), before);
  stop();
}

TEST_F(UdpServerFaults, ReceiveAndSendErrorsAreCounted) {
  start_echo();
  udp_client client(server->local_endpoint());
  {
    const fault failing("recvmmsg", ENOMEM, {.times = 3});
    client.send("kept");
    turn_until(loop, [&] { return server->metrics().sent == 1; });
    EXPECT_EQ(server->metrics().errors, 3u);
  }
  const fault failing("sendmmsg", ENOBUFS);
  client.send("lost");
  client.send("sent");
  turn_until(loop, [&] { return server->metrics().sent == 2; });
  EXPECT_EQ(server->metrics().errors, 4u);
  EXPECT_EQ(client.receive(10s)->text(), "kept");
  EXPECT_EQ(client.receive(10s)->text(), "sent");
  const fault interrupted("recvmmsg", EINTR);
  const fault interrupted_too("sendmmsg", EINTR);
  client.send("unharmed");
  turn_until(loop, [&] { return server->metrics().sent == 3; });
  EXPECT_EQ(interrupted.hits() + interrupted_too.hits(), 2);
  EXPECT_EQ(server->metrics().errors, 4u);
  stop();
}

TEST(UdpClientFaults, AreThrown) {
  gyre::loop loop;
  udp_server server(loop);
  server.listen(any_port());
  const int before = open_descriptors();
  for (const auto& [call, error] : {std::pair("socket", EMFILE), std::pair("bind", EADDRINUSE),
                                    std::pair("connect", ENETUNREACH)}) {
    const fault failing(call, error);
    EXPECT_EQ(code_of([&] { udp_client(server.local_endpoint(), any_port()); }), error) << call;
    EXPECT_EQ(open_descriptors(), before) << call;
  }
  udp_client client(server.local_endpoint());
  for (const auto& [call, error] :
       {std::pair("send", ENOBUFS), std::pair("recv", ENOMEM), std::pair("poll", ENOMEM)}) {
    // The first recv() drops earlier datagrams; its failure would not concern the question.
    const fault failing(call, error, {.after = call == std::string("recv") ? 1 : 0});
    EXPECT_EQ(code_of([&] { client.ask("?", 10s); }), error) << call;
  }
  for (const char* call : {"send", "recv", "poll"}) {
    const fault interrupted(call, EINTR);
    EXPECT_FALSE(client.ask("?", 1ms)) << call;
    EXPECT_EQ(interrupted.hits(), 1) << call;
  }
}

// --- No memory where nothing may be thrown ---

TEST(UdpServerWithoutMemory, IsClosedByItsLoopAllTheSame) {
  using loop_type = gyre::basic_loop<gyre::test::inbox_that_may_be_full>;
  for (const bool turns : {false, true}) {
    for (const bool by_its_function : {false, true}) {
      const int none = open_descriptors();
      std::optional<loop_type> loop(std::in_place);
      const int before = open_descriptors();
      std::optional<udp_server> server(std::in_place, *loop);
      const auto destroy = [&] {
        gyre::test::inbox_full = true;
        server.reset();
        gyre::test::inbox_full = false;
      };
      server->on_datagram([&](udp_server::channel&, bytes, const endpoint&) { destroy(); });
      server->listen(any_port());
      server->start();
      settle(*loop);
      if (by_its_function) {
        udp_client(server->local_endpoint()).send("end");
        turn_until(*loop, [&] { return !server; });
      } else {
        destroy();
      }
      if (turns) {
        settle(*loop);
        EXPECT_EQ(open_descriptors(), before) << by_its_function;
      }
      loop.reset();
      EXPECT_EQ(open_descriptors(), none) << by_its_function;
    }
  }
}

}  // namespace
}  // namespace udp_server_faults_test
