// SPDX-License-Identifier: Apache-2.0
// Tests of an idle ring: its cost, the requests left in it, and the owners of both after a fork.
#include <gyre/io/uring_poller.hpp>

#include "tests/support/socket_pairs.hpp"
#include "tests/support/uring_variants.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace uring_idle_test {
namespace {

using namespace gyre::io;
using gyre::steady_time;
using gyre::unique_fd;

class UringIdle : public testing::TestWithParam<gyre::test::uring_variant> {
 protected:
  void SetUp() override {
    const uring_support here = probe_uring();
    if (!here.usable) GTEST_SKIP() << here.reason;
    poller.emplace(GetParam().features);
  }

  // A loop's turn without a wait; true if there was an event.
  bool turn() {
    const bool any = poller->wait(steady_time::min()) > 0;
    std::size_t completed = 0;
    poller->complete(completed);
    return any;
  }
  // Whether turns with events come to an end.
  bool comes_to_rest() {
    for (int turns = 0; turns < 1000; ++turns) {
      if (!turn()) return true;
    }
    return false;
  }

  std::optional<uring_poller> poller;
};

INSTANTIATE_TEST_SUITE_P(, UringIdle, testing::ValuesIn(gyre::test::uring_variants()),
                         [](const auto& tested) { return tested.param.name; });

// A connection that keeps the bytes it receives.
struct keeper : receive_request {
  keeper(backend& of, gyre::test::fd_pair pair)
      : receive_request(here, &keep, repeat::until_cancelled),
        io(of),
        near(std::move(pair.first)),
        far(std::move(pair.second)),
        here(near.get(), handle_kind::stream_socket) {
    io.attach(here);
  }
  ~keeper() { io.detach(here); }

  static void keep(request& self, result made) {
    auto& own = static_cast<keeper&>(self);
    if (made && made.count() > 0) own.kept.push_back(std::move(own.data));
  }
  void begin() { EXPECT_FALSE(io.start(*this)); }
  void pause() { EXPECT_FALSE(io.cancel(*this)); }
  void peer_sends() const { EXPECT_EQ(::send(far.get(), "message", 7, MSG_NOSIGNAL), 7); }

  backend& io;
  unique_fd near;
  unique_fd far;
  handle here;
  std::vector<received> kept;
};

TEST_P(UringIdle, WithoutBuffersForThemConnectionsWaitInPeaceAndGoOn) {
  keeper greedy(*poller->io(), gyre::test::unix_pair());
  keeper idle(*poller->io(), gyre::test::unix_pair());
  greedy.begin();
  ASSERT_TRUE(comes_to_rest());
  while (greedy.kept.size() < 300) {
    const std::size_t before = greedy.kept.size();
    greedy.peer_sends();
    while (greedy.kept.size() == before) turn();
  }
  idle.begin();
  EXPECT_TRUE(comes_to_rest()) << "the ring goes on asking for a buffer";
  idle.peer_sends();
  while (idle.kept.empty()) turn();
  greedy.kept.clear();
  idle.peer_sends();
  while (idle.kept.size() < 2) turn();
  EXPECT_TRUE(comes_to_rest());
}

TEST_P(UringIdle, WakeUpsThatNobodyWaitsForDoNotPileUp) {
  {
    keeper one(*poller->io(), gyre::test::unix_pair());
    one.begin();
    ASSERT_TRUE(comes_to_rest());
  }
  for (int i = 0; i < 1000; ++i) poller->wake();
  keeper another(*poller->io(), gyre::test::unix_pair());
  another.begin();
  EXPECT_LE(poller->wait(steady_time::min()), 2u);
  EXPECT_TRUE(comes_to_rest());
  poller->wake();
  EXPECT_GT(poller->wait(steady_time::max()), 0u);
}

TEST_P(UringIdle, ManyThatAreClosedOneAfterTheOtherLeaveNothing) {
  std::vector<std::unique_ptr<keeper>> many;
  for (int i = 0; i < 200; ++i) {
    many.push_back(std::make_unique<keeper>(*poller->io(), gyre::test::unix_pair()));
    many.back()->begin();
  }
  ASSERT_TRUE(comes_to_rest());
  const keeper last(*poller->io(), gyre::test::unix_pair());
  many.clear();
  EXPECT_LE(poller->wait(steady_time::min()), 2u) << "each close looks at what those before left";
}

TEST_P(UringIdle, BytesReceivedBeforeAForkBelongToTheParentAlone) {
  keeper one(*poller->io(), gyre::test::unix_pair());
  one.begin();
  ASSERT_TRUE(comes_to_rest());
  one.pause();
  one.peer_sends();
  ASSERT_TRUE(comes_to_rest());

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    poller->after_fork();
    // Where the parent's ring has not received the message, it is still in the socket.
    std::array<std::byte, 7> there;
    const bool in_socket = ::recv(one.near.get(), there.data(), there.size(), MSG_PEEK) == 7;
    one.begin();
    while (!in_socket && turn()) {
    }
    ::_exit(in_socket || one.kept.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "both got it";
  one.begin();
  while (one.kept.empty()) ASSERT_TRUE(turn());
}

}  // namespace
}  // namespace uring_idle_test
