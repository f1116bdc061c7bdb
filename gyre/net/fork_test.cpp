// SPDX-License-Identifier: Apache-2.0
// Tests of servers and streams in a forked child, which continues to use them or destroys them. The
// child reports success by its exit status.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/net/udp_client.hpp>
#include <gyre/net/udp_server.hpp>
#include <gyre/task/task.hpp>

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

// Writes the coverage profile, in a build that keeps one: _exit() does not.
extern "C" [[gnu::weak]] int __llvm_profile_write_file();

namespace fork_test {
namespace {

using namespace gyre::net::test;
using gyre::io::input;
using gyre::net::endpoint;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_stream;
using gyre::net::udp_client;
using gyre::net::udp_server;
using bytes = std::span<const std::byte>;

template <class Work>
pid_t fork_to(Work&& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);
  const bool success = work();
  if (__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
  ::_exit(success ? 0 : 1);
}

bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Two echo servers; the message "end" ends a child.
class ForkedServers : public testing::Test {
 protected:
  void SetUp() override {
    tcp.emplace(loop);
    tcp->on_message([this](tcp_connection& c, input& in) {
      over = over || in.text() == "end";
      c.send(in.bytes());
      in.consume_all();
    });
    tcp->listen(any_port());
    tcp->start();
    udp.emplace(loop);
    udp->on_datagram([](udp_server::channel& by, bytes datagram, const endpoint& from) {
      by.send_to(datagram, from);
    });
    udp->listen(any_port());
    udp->start();
    tcp_at = tcp->local_endpoint();
    udp_at = udp->local_endpoint();
    settle(loop);
  }
  /// Tests the servers of this process.
  std::string ask(peer& by, const std::string& question) {
    by.text.clear();
    by.send(question);
    return by.receive(loop, question.size());
  }

  gyre::loop loop;
  std::optional<tcp_server> tcp;
  std::optional<udp_server> udp;
  endpoint tcp_at, udp_at;
  bool over = false;
};

/// Tests the servers of another process.
std::string ask_elsewhere(peer& by, const std::string& question) {
  by.text.clear();
  by.send(question);
  while (!by.ended && by.text.size() < question.size()) {
    pollfd waiting{by.fd(), POLLIN, 0};
    if (::poll(&waiting, 1, 30'000) != 1) return "nothing";
    by.receive();
  }
  return by.text;
}

TEST_F(ForkedServers, GoOnInTheChildWhenTheParentHasDestroyedItsOwn) {
  peer before(tcp_at);
  EXPECT_EQ(ask(before, "parent"), "parent");
  const pid_t child = fork_to([&] {
    before.close();
    loop.after_fork_in_child();
    turn_until(loop, [&] { return over; });
    tcp.reset();
    udp.reset();
    settle(loop);
    return over;
  });
  tcp.reset();
  udp.reset();
  settle(loop);
  EXPECT_EQ(ask_elsewhere(before, "child"), "child") << "a connection of before";
  peer later(tcp_at);
  EXPECT_EQ(ask_elsewhere(later, "later"), "later");
  udp_client client(udp_at);
  const std::optional<gyre::io::buffer> answer = client.ask("datagram", 30s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text(), "datagram");
  EXPECT_EQ(ask_elsewhere(later, "end"), "end");
  EXPECT_TRUE(succeeded(child));
  EXPECT_FALSE(over) << "in the parent";
}

TEST_F(ForkedServers, GoOnInTheParentWhenTheChildHasDestroyedItsOwn) {
  peer before(tcp_at);
  EXPECT_EQ(ask(before, "parent"), "parent");
  for (const bool turns : {false, true}) {
    // A message and a connection are in transit at the fork.
    before.text.clear();
    before.send("on the way");
    peer queued(tcp_at);
    queued.send("queued");
    const pid_t child = fork_to([&] {
      before.close();
      queued.close();
      loop.after_fork_in_child();
      tcp.reset();
      udp.reset();
      if (turns) settle(loop);
      return true;
    });
    EXPECT_TRUE(succeeded(child));
    EXPECT_EQ(before.receive(loop, 10), "on the way");
    EXPECT_EQ(queued.receive(loop, 6), "queued");
    peer later(tcp_at);
    EXPECT_EQ(ask(later, "later"), "later");
    EXPECT_EQ(ask(before, "again"), "again");
    udp_client client(udp_at);
    client.send("datagram");
    turn_until(loop, [&] { return udp->metrics().sent > (turns ? 1u : 0u); });
    EXPECT_EQ(client.receive(10s)->text(), "datagram");
  }
}

TEST(ForkedStreams, GoOnInTheChildAndInTheParent) {
  for (const bool child_destroys : {true, false}) {
    gyre::loop loop;
    auto [near, far] = gyre::net::socket_pair();
    std::optional<tcp_stream> stream(std::in_place, loop, std::move(near));
    peer other(std::move(far));
    const auto echo = [&]() -> gyre::task<> {
      const auto came = co_await stream->receive();
      const std::string text(came.text());
      co_await stream->write_all(text);
    };
    other.send("before");
    gyre::sync_wait(loop, echo());
    const pid_t child = fork_to([&] {
      loop.after_fork_in_child();
      if (child_destroys) {
        stream.reset();
        settle(loop);
      } else {
        gyre::sync_wait(loop, echo());
      }
      return true;
    });
    if (!child_destroys) {
      stream.reset();
      settle(loop);
    }
    if (child_destroys) {
      EXPECT_TRUE(succeeded(child));
    }
    other.receive();
    EXPECT_EQ(other.text, "before");
    if (child_destroys) {
      other.text.clear();
      other.send("after");
      gyre::sync_wait(loop, echo());
      other.receive();
      EXPECT_EQ(other.text, "after");
    } else {
      EXPECT_EQ(ask_elsewhere(other, "after"), "after");
      EXPECT_TRUE(succeeded(child));
    }
  }
}

}  // namespace
}  // namespace fork_test
