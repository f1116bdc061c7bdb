// SPDX-License-Identifier: Apache-2.0
// Tests of the accept policy: its refusals and its pauses.
#include <gyre/net/detail/accept_policy.hpp>

#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/testing/system_call_faults.hpp>

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace accept_policy_test {
namespace {

using namespace std::chrono_literals;
using gyre::net::detail::accept_policy;

class AcceptPolicy : public testing::Test {
 protected:
  using socket = gyre::net::socket;

  static socket listen() {
    socket opened = open();
    opened.bind({gyre::net::ip_address::loopback_v4(), 0});
    opened.listen(128);
    return opened;
  }
  void connect(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      clients_.push_back(open());
      static_cast<void>(clients_.back().connect(listening_.local_endpoint()));
    }
  }
  accept_policy::pause begin_pause(int error) {
    return policy_.begin_pause(listening_.fd(), error);
  }

  const socket listening_ = listen();
  std::vector<socket> clients_;
  accept_policy policy_{10ms, 70ms};

 private:
  static socket open() {
    return socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  }
};

TEST_F(AcceptPolicy, PausesTwiceAsLongEachTimeUpToTheLongest) {
  for (const auto expected : {10ms, 20ms, 40ms, 70ms, 70ms}) {
    EXPECT_EQ(begin_pause(ENFILE).length, expected);
  }
  policy_.reset();
  EXPECT_EQ(begin_pause(EMFILE).length, 10ms);
}

TEST_F(AcceptPolicy, TellsTheFirstOfSeveralPauses) {
  EXPECT_TRUE(begin_pause(ENOMEM).is_first);
  EXPECT_FALSE(begin_pause(ENOMEM).is_first);
  policy_.reset();
  EXPECT_TRUE(begin_pause(ENOMEM).is_first);
}

TEST_F(AcceptPolicy, NeverSpins) {
  accept_policy hasty(0ns, 0ns);
  EXPECT_EQ(hasty.begin_pause(listening_.fd(), EMFILE).length, 1ms);
  EXPECT_EQ(hasty.begin_pause(listening_.fd(), EMFILE).length, 1ms);
}

TEST_F(AcceptPolicy, RefusesAllThatWaitWhenThereAreNoDescriptors) {
  connect(3);
  const int descriptors = gyre::testing::open_descriptors();
  EXPECT_EQ(begin_pause(EMFILE).refused, 3u);
  EXPECT_EQ(begin_pause(EMFILE).refused, 0u);
  EXPECT_EQ(gyre::testing::open_descriptors(), descriptors);
  for (const socket& each : clients_) {
    char byte;
    EXPECT_EQ(::recv(each.fd(), &byte, 1, 0), 0) << "its peer is told";
  }
}

TEST_F(AcceptPolicy, RefusesOnlySoManyAtOnce) {
  connect(accept_policy::max_refused_at_once + 2);
  EXPECT_EQ(begin_pause(EMFILE).refused, accept_policy::max_refused_at_once);
  EXPECT_EQ(begin_pause(EMFILE).refused, 2u);
}

// A connection that waits may be served once there is memory again.
TEST_F(AcceptPolicy, RefusesNoneForWantOfMemory) {
  connect(1);
  for (const int error : {ENOMEM, ENOBUFS, EINVAL}) EXPECT_EQ(begin_pause(error).refused, 0u);
  EXPECT_EQ(begin_pause(EMFILE).refused, 1u);
}

TEST_F(AcceptPolicy, TellsExhaustionFromDefects) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    EXPECT_TRUE(accept_policy::is_exhaustion(error));
  }
  for (const int error : {0, EINVAL, EBADF, EAGAIN}) {
    EXPECT_FALSE(accept_policy::is_exhaustion(error));
  }
}

}  // namespace
}  // namespace accept_policy_test
