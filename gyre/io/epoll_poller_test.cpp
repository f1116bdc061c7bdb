// SPDX-License-Identifier: Apache-2.0
// Tests of when the poller on epoll watches descriptors for writing.
#include <gyre/io/epoll_poller.hpp>

#include <gyre/io/request.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <ostream>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace epoll_poller_test {
namespace {

using gyre::steady_time;
using gyre::io::handle_kind;
using gyre::io::result;
using gyre::testing::calls_made;
using gyre::testing::fault;

constexpr std::size_t message_size = 1000;

// Both ends of a pair of UDP sockets on the loopback address.
gyre::test::fd_pair udp_pair() {
  std::array<gyre::unique_fd, 2> ends;
  std::array<sockaddr_in, 2> addresses{};
  socklen_t size = sizeof(sockaddr_in);
  for (std::size_t i = 0; i < 2; ++i) {
    ends[i] = gyre::unique_fd(gyre::test::checked(
        ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
    addresses[i].sin_family = AF_INET;
    addresses[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&addresses[i]);
    gyre::test::checked(::bind(ends[i].get(), address, size), "bind");
    gyre::test::checked(::getsockname(ends[i].get(), address, &size), "getsockname");
  }
  for (std::size_t i = 0; i < 2; ++i) {
    auto* const address = reinterpret_cast<sockaddr*>(&addresses[1 - i]);
    gyre::test::checked(::connect(ends[i].get(), address, size), "connect");
  }
  return {std::move(ends[0]), std::move(ends[1])};
}

gyre::test::fd_pair writable_pipe() {
  auto [reading, writing] = gyre::test::pipe_pair();
  return {std::move(writing), std::move(reading)};
}

struct tested_pair {
  std::string name;
  gyre::test::fd_pair (*make)();
  handle_kind kind;
  friend void PrintTo(const tested_pair& self, std::ostream* to) { *to << self.name; }
};

const tested_pair unix_stream{"UnixStream", [] { return gyre::test::unix_pair(); },
                              handle_kind::socket};
const tested_pair unix_datagram{"UnixDatagram", [] { return gyre::test::unix_pair(SOCK_DGRAM); },
                                handle_kind::socket};
const tested_pair udp{"Udp", &udp_pair, handle_kind::socket};
const tested_pair tcp{"Tcp", [] { return gyre::test::tcp_pair(65536); },
                      handle_kind::stream_socket};
const tested_pair pipe{"Pipe", &writable_pipe, handle_kind::other};

// A write that records its outcome.
struct noted_write : gyre::io::write_request {
  noted_write(gyre::io::handle& sink, std::span<const std::byte> bytes, bool is_whole = false)
      : write_request(sink, bytes, &note, is_whole) {}
  static void note(request& self, result outcome) {
    static_cast<noted_write&>(self).outcome = outcome;
  }
  std::optional<result> outcome;
};

class EpollWrites : public testing::TestWithParam<tested_pair> {
 protected:
  explicit EpollWrites(const tested_pair& pair = GetParam()) : EpollWrites(pair, pair.make()) {}
  ~EpollWrites() override { backend().detach(target); }

  gyre::io::backend& backend() { return *poller.io(); }
  // Returns the number of reports.
  std::size_t poll() {
    const std::size_t reports = poller.wait(steady_time::min());
    complete();
    return reports;
  }
  void complete() {
    std::size_t completions = 0;
    poller.complete(completions);
  }
  void settle() {
    while (poll() > 0) continue;
  }
  void await_end(const noted_write& writing) {
    for (int turns = 0; !writing.outcome && turns < 1000; ++turns) {
      poller.wait(poller.now() + std::chrono::milliseconds(20));
      complete();
    }
    ASSERT_TRUE(writing.outcome) << "the write was not resumed";
  }
  result attempt() {
    noted_write writing(target, message);
    return backend().attempt(writing);
  }
  // Writes messages until one has to wait.
  void fill() {
    for (int messages = 0; messages < 100'000; ++messages) {
      const result outcome = attempt();
      if (outcome.would_block()) return;
      ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    }
    FAIL() << "there is always room";
  }
  // Reads once, after bytes have arrived: UDP may deliver them later.
  bool peer_receives() const {
    pollfd arrival{peer.get(), POLLIN, 0};
    return ::poll(&arrival, 1, 60'000) == 1 && peer_reads();
  }
  bool peer_reads() const {
    std::array<std::byte, 65536> memory;
    return ::read(peer.get(), memory.data(), memory.size()) > 0;
  }
  void peer_reads_all() const {
    while (peer_reads()) continue;
  }
  // TCP moves bytes to the receiver's buffer on its own.
  bool makes_room_itself() const { return target.kind() == handle_kind::stream_socket; }
  static std::size_t changes() { return calls_made("epoll_ctl"); }

  gyre::io::epoll_poller poller;
  const std::vector<std::byte> message = std::vector<std::byte>(message_size);
  gyre::unique_fd own;
  gyre::unique_fd peer;
  gyre::io::handle target;

 private:
  EpollWrites(const tested_pair& pair, gyre::test::fd_pair ends)
      : own(std::move(ends.first)), peer(std::move(ends.second)), target(own.get(), pair.kind) {
    backend().attach(target);
    settle();
  }
};

std::string name_of(const testing::TestParamInfo<tested_pair>& tested) { return tested.param.name; }

INSTANTIATE_TEST_SUITE_P(, EpollWrites, testing::Values(unix_stream, unix_datagram, tcp, pipe),
                         name_of);

// Sockets of which the kernel reports more often than necessary that there is room.
class EpollWritesOnDemand : public EpollWrites {};

INSTANTIATE_TEST_SUITE_P(, EpollWritesOnDemand, testing::Values(unix_stream, unix_datagram, udp),
                         name_of);

TEST_P(EpollWritesOnDemand, WakeNobodyWhenThePeerReads) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(attempt().count(), message_size);
    EXPECT_EQ(poll(), 0u);
    ASSERT_TRUE(peer_receives());
    EXPECT_EQ(poll(), 0u);
  }
}

TEST_P(EpollWrites, AreResumedWhenThePeerReads) {
  fill();
  noted_write writing(target, message);
  ASSERT_FALSE(backend().start(writing));
  settle();
  if (!makes_room_itself()) {
    EXPECT_FALSE(writing.outcome);
  }
  peer_reads_all();
  await_end(writing);
  EXPECT_TRUE(writing.outcome->ok());
}

TEST_P(EpollWrites, AreResumedByAttemptsAlone) {
  fill();
  settle();
  peer_reads_all();
  result outcome = result::failure(EAGAIN);
  for (int turns = 0; outcome.would_block() && turns < 1000; ++turns) {
    poll();
    outcome = attempt();
  }
  EXPECT_TRUE(outcome.ok());
}

// There is room again before the call that found none is followed by a wait, so that no edge comes
// afterwards.
TEST_P(EpollWritesOnDemand, FindRoomThatCameBeforeTheyWaited) {
  for (int i = 0; i < 5; ++i) {
    const std::size_t before = changes();
    const fault full("send", EAGAIN);
    noted_write writing(target, message);
    ASSERT_FALSE(backend().start(writing));
    EXPECT_EQ(changes() - before, 1u);
    await_end(writing);
    ASSERT_TRUE(peer_receives());
    settle();
    EXPECT_EQ(changes() - before, 2u) << "the report for which no write waited";
  }
}

TEST_P(EpollWrites, AreResumedAfterTheyWereResumedBefore) {
  for (int i = 0; i < 5; ++i) {
    fill();
    noted_write writing(target, message);
    ASSERT_FALSE(backend().start(writing));
    peer_reads_all();
    await_end(writing);
    peer_reads_all();
    settle();
  }
}

TEST_P(EpollWrites, AreResumedInAForkedChild) {
  fill();
  noted_write writing(target, message);
  ASSERT_FALSE(backend().start(writing));
  poller.after_fork();  // replaces the epoll instance
  settle();
  if (!makes_room_itself()) {
    EXPECT_FALSE(writing.outcome);
  }
  peer_reads_all();
  await_end(writing);
}

class EpollWritesOfUnixStreams : public EpollWrites {
 protected:
  EpollWritesOfUnixStreams() : EpollWrites(unix_stream) {}
};

TEST_F(EpollWritesOfUnixStreams, AreWatchedOnlyUntilNoneWaits) {
  const std::size_t before = changes();
  fill();
  EXPECT_EQ(changes() - before, 1u);
  noted_write writing(target, message);
  ASSERT_FALSE(backend().start(writing));
  EXPECT_EQ(changes() - before, 1u) << "it is watched for writing already";
  peer_reads_all();
  await_end(writing);
  ASSERT_TRUE(peer_receives());
  EXPECT_EQ(poll(), 1u);
  EXPECT_EQ(changes() - before, 2u) << "no write waited for this report";
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(attempt().ok());
    ASSERT_TRUE(peer_receives());
    EXPECT_EQ(poll(), 0u);
  }
  EXPECT_EQ(changes() - before, 2u);
}

TEST_F(EpollWritesOfUnixStreams, ChangeTheRegistrationOnceForAllPartsOfALongWrite) {
  const std::vector<std::byte> bytes(std::size_t{8} << 20);
  const std::size_t before = changes();
  noted_write writing(target, bytes, true);
  ASSERT_FALSE(backend().start(writing));
  int turns = 0;
  for (; !writing.outcome && turns < 100'000; ++turns) {
    peer_reads_all();
    poll();
  }
  ASSERT_TRUE(writing.outcome);
  EXPECT_EQ(writing.outcome->count(), bytes.size());
  EXPECT_GT(turns, 5) << "the write has waited often";
  EXPECT_EQ(changes() - before, 1u);
}

TEST_F(EpollWritesOfUnixStreams, FailIfTheyCannotBeWatched) {
  {
    const fault failing("epoll_ctl", ENOMEM, {.times = 2});
    for (int messages = 0; failing.hits() == 0 && messages < 100'000; ++messages) {
      const result outcome = attempt();
      if (!outcome) {
        EXPECT_EQ(outcome.error_number(), ENOMEM);
      }
    }
    noted_write writing(target, message);
    const auto refused = backend().start(writing);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->error_number(), ENOMEM);
    EXPECT_EQ(failing.hits(), 2);
  }
  noted_write writing(target, message);
  ASSERT_FALSE(backend().start(writing));
  peer_reads_all();
  await_end(writing);
}

TEST_F(EpollWritesOfUnixStreams, BeginUnwatchedAtAReusedIndex) {
  fill();  // watched for writing
  backend().detach(target);
  auto [left, right] = gyre::test::unix_pair();
  gyre::io::handle other(left.get(), handle_kind::socket);
  backend().attach(other);
  settle();
  for (int i = 0; i < 3; ++i) {
    noted_write writing(other, message);
    ASSERT_TRUE(backend().attempt(writing).ok());
    std::array<std::byte, message_size> memory;
    ASSERT_GT(::read(right.get(), memory.data(), memory.size()), 0);
    EXPECT_EQ(poll(), 0u);
  }
  backend().detach(other);
}

// Parts of random sizes are written and read, so that room appears at every moment: before, while
// and after a write begins to wait.
TEST_F(EpollWritesOfUnixStreams, LoseNoEdgeWhileAnotherThreadReads) {
  constexpr std::size_t total = std::size_t{64} << 20;
  const std::vector<std::byte> bytes(std::size_t{256} << 10);
  const std::jthread reader([fd = peer.get(), size = bytes.size()](const std::stop_token& stop) {
    std::minstd_rand random(1);
    std::vector<std::byte> memory(size);
    while (!stop.stop_requested()) {
      if (::read(fd, memory.data(), 1 + random() % size) < 0) std::this_thread::yield();
    }
  });
  std::minstd_rand random(2);
  for (std::size_t left = total; left > 0;) {
    if (random() % 2 == 0) poll();  // may find that no write waits for room
    const std::size_t size = std::min<std::size_t>(left, 1 + random() % bytes.size());
    noted_write writing(target, std::span(bytes).first(size), random() % 2 == 0);
    std::optional<result> outcome = backend().start(writing);
    const steady_time deadline = poller.now() + std::chrono::minutes(2);
    while (!outcome) {
      poller.wait(deadline);
      complete();
      outcome = writing.outcome;
      ASSERT_LT(poller.now(), deadline) << "an edge was lost";
    }
    ASSERT_TRUE(outcome->ok());
    left -= outcome->count();
  }
}

}  // namespace
}  // namespace epoll_poller_test
