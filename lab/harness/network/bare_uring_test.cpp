// SPDX-License-Identifier: Apache-2.0
// Tests that the bare loops on io_uring move bytes as bare_epoll does, as server and as client.
#include <lab/experiments/ping_pong/messages.hpp>
#include <lab/harness/contender.hpp>
#include <lab/harness/network/bare_epoll.hpp>
#include <lab/harness/network/bare_uring.hpp>
#include <lab/harness/network/echo.hpp>
#include <lab/harness/network/session_threads.hpp>
#include <lab/harness/network/socket.hpp>

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace lab::network {
namespace bare_uring_test {
namespace {

/// Pairs of sockets. As in an experiment, the threads that serve them and their data live until the
/// process ends; the threads block when the connections end with this object.
struct connected {
  explicit connected(std::size_t connections) {
    const int listener = listen_on_loopback();
    clients = connect_all(port_of(listener), connections);
    servers = accept_all(listener, connections);
  }

  connected(const connected&) = delete;
  connected& operator=(const connected&) = delete;

  ~connected() {
    for (const int client : clients) shutdown(client, SHUT_RDWR);
  }

  std::vector<int> clients;
  std::vector<int> servers;
};

template <class Loop>
class BareUring : public testing::Test {
 protected:
  void SetUp() override {
    try {
      Loop::probe();
    } catch (const cannot_run& reason) {
      GTEST_SKIP() << reason.what();
    }
  }

  /// Lets a message of 4 MiB circulate on each of three connections, until as many bytes came back.
  template <class Server, class Client>
  static void echo() {
    const connected by(3);
    static auto& messages = *new echo_messages(4 << 20, fault::none);
    auto& serving = session_threads<echo_server>::make(by.servers, 1, messages);
    auto& asking = session_threads<echo_client>::make(by.clients, 2, messages);
    serving.template start<Server>();
    asking.template start<Client>();
    while (asking.sum(&session_counters::bytes) < by.clients.size() * messages.size() ||
           asking.sum(&session_counters::finished) < by.clients.size()) {
      std::this_thread::yield();
    }
    EXPECT_EQ(asking.sum(&session_counters::wrong), 0u);
    EXPECT_EQ(asking.sum(&session_counters::lost), 0u);
  }
};

// Fewer buffers than connections, so that the buffers run out.
using loops = testing::Types<bare_uring_plain<64 * 1024>, bare_uring_multishot<2, 4096>>;
TYPED_TEST_SUITE(BareUring, loops);

TYPED_TEST(BareUring, EchoesWhatIsLargerThanAllBuffers) {
  this->template echo<TypeParam, common_client>();
}

// On one processor, the peer of one connection may have answered whenever the server polls.
TYPED_TEST(BareUring, LeavesEachConnectionItsTurnOnOneProcessor) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  this->template echo<TypeParam, common_client>();
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TYPED_TEST(BareUring, IsAClientThatReadsWhileItSends) {
  this->template echo<TypeParam, TypeParam>();
}

TYPED_TEST(BareUring, PlaysPingPongAtBothEnds) {
  const connected by(3);
  auto& game = *new ping_pong::game(3, 300, fault::none);
  auto& serving = session_threads<ping_pong::server_session>::make(by.servers, 1, game);
  auto& asking = session_threads<ping_pong::client_session>::make(by.clients, 1, game);
  serving.template start<TypeParam>();
  asking.template start<TypeParam>();
  while (asking.sum(&session_counters::finished) < 3) std::this_thread::yield();
  EXPECT_EQ(asking.sum(&session_counters::wrong), 0u);
}

TYPED_TEST(BareUring, NoticesAnEnd) {
  const connected by(1);
  auto& serving = session_threads<echo_server>::make(by.servers, 1, by);
  serving.template start<TypeParam>();
  shutdown(by.clients.front(), SHUT_WR);
  while (serving.sum(&session_counters::lost) == 0) std::this_thread::yield();
  EXPECT_EQ(serving.sum(&session_counters::bytes), 0u);
}

}  // namespace
}  // namespace bare_uring_test
}  // namespace lab::network
