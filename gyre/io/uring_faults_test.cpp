// SPDX-License-Identifier: Apache-2.0
// Tests of failures of every call that a loop makes for its ring: each failure is reported or
// handled silently, loses nothing and leaks nothing.
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/io/uring_poller.hpp>
#include <gyre/io/uring_support.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace uring_faults_test {
namespace {

using namespace gyre::io;
using namespace std::chrono_literals;
using gyre::unique_fd;
using gyre::testing::fault;
using gyre::testing::open_descriptors;

constexpr fault::plan always{.times = -1};

/// The bytes received from a socket.
class receiver {
 public:
  receiver(gyre::loop& loop, gyre::test::fd_pair pair = gyre::test::unix_pair())
      : here_(loop, std::move(pair.first), handle_kind::stream_socket),
        peer_(std::move(pair.second)),
        request_(here_.handle(), *this) {
    EXPECT_FALSE(here_.start(request_));
  }
  void peer_sends(char byte) const { EXPECT_EQ(::send(peer_.get(), &byte, 1, MSG_NOSIGNAL), 1); }
  void close() { here_.close(); }

  std::string text;

 private:
  struct request : receive_request {
    request(handle& from, receiver& of)
        : receive_request(from, &note, repeat::until_cancelled), to(of) {}
    static void note(gyre::io::request& self, result what) {
      auto& own = static_cast<request&>(self);
      EXPECT_TRUE(what.ok()) << what.error().message();
      own.to.text += own.data.text();
      own.data = {};
    }
    receiver& to;
  };

  descriptor here_;
  unique_fd peer_;
  request request_;
};

int error_of(const std::function<void()>& action) {
  try {
    action();
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

class UringFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (!probe_uring().usable) GTEST_SKIP() << "no rings here";
    before_ = open_descriptors();
    loop.emplace(gyre::loop_options{}, std::make_unique<uring_poller>());
  }
  void TearDown() override {
    if (!loop) return;
    loop.reset();
    EXPECT_EQ(open_descriptors(), before_);
  }
  void run_until(const std::function<bool()>& done) {
    for (int turns = 0; !done(); ++turns) {
      ASSERT_LT(turns, 10'000) << "nothing came of it";
      loop->run_for(1ms);
    }
  }
  void expect_arrival(receiver& at) {
    const std::string had = at.text;
    at.peer_sends('x');
    run_until([&] { return at.text != had; });
    EXPECT_EQ(at.text, had + 'x');
  }

  std::optional<gyre::loop> loop;

 private:
  int before_ = 0;
};

TEST_F(UringFaults, ThePollersConstructorThrowsThem) {
  const int before = open_descriptors();
  for (const char* call : {"eventfd", "io_uring_queue_init_params", "epoll_create1"}) {
    const fault failing(call, EMFILE);
    EXPECT_EQ(error_of([] { uring_poller(); }), EMFILE) << call;
    EXPECT_EQ(failing.hits(), 1) << call;
    EXPECT_EQ(open_descriptors(), before) << call;
  }
}

TEST_F(UringFaults, ALoopUsesEpollIfNoPollerCanBeMade) {
  const int before = open_descriptors();
  for (const char* call : {"io_uring_queue_init_params", "mmap"}) {
    const fault failing(call, ENOMEM, always);
    EXPECT_STREQ(gyre::loop({.io = gyre::io_interface::uring}).metrics().io, "epoll") << call;
    EXPECT_EQ(failing.hits(), 1) << call;
    EXPECT_EQ(open_descriptors(), before) << call;
  }
}

TEST_F(UringFaults, ALoopReceivesByCallsIfItCannotProvideBuffers) {
  const fault failing("io_uring_register_buf_ring", ENOMEM);
  loop.emplace(gyre::loop_options{}, std::make_unique<uring_poller>());
  EXPECT_EQ(failing.hits(), probe_uring().features.multishot_receive ? 1 : 0);
  receiver to(*loop);
  const fault received("recv", EINTR);
  expect_arrival(to);
  EXPECT_EQ(received.hits(), 1) << "by a call";
}

TEST_F(UringFaults, AFailureToEnableTheRingIsThrown) {
  receiver to(*loop);
  {
    const fault failing("io_uring_register", EBADFD);
    EXPECT_EQ(error_of([&] { loop->poll(); }), EBADFD);
    EXPECT_EQ(failing.hits(), 1);
  }
  expect_arrival(to);
}

// Parameter: the call with which the loop waits with a deadline, without one, or polls.
struct way_to_wait {
  const char* call;
  void (*wait)(gyre::loop&);
  friend void PrintTo(const way_to_wait& self, std::ostream* to) { *to << self.call; }
};
class UringWaitFaults : public UringFaults, public testing::WithParamInterface<way_to_wait> {};

TEST_P(UringWaitFaults, AreThrownAndTheLoopGoesOn) {
  receiver to(*loop);
  {
    const fault failing(GetParam().call, EINVAL, always);
    EXPECT_EQ(error_of([&] { GetParam().wait(*loop); }), EINVAL);
  }
  expect_arrival(to);
}

TEST_P(UringWaitFaults, ThatPassAreNotTold) {
  receiver to(*loop);
  int hits = 0;
  for (const int error : {EINTR, EAGAIN, EBUSY}) {
    const fault failing(GetParam().call, error, {.times = 3});
    const std::size_t had = to.text.size();
    to.peer_sends('x');
    for (int turns = 0; to.text.size() == had; ++turns) {
      ASSERT_LT(turns, 1000);
      GetParam().wait(*loop);
    }
    hits += failing.hits();
  }
  EXPECT_GT(hits, 0);
  EXPECT_EQ(to.text, "xxx");
}

// Errors: the ring belongs to another thread, or has lost completions.
TEST_P(UringWaitFaults, AFailedRingIsReplaced) {
  receiver to(*loop);
  expect_arrival(to);
  const int before = open_descriptors();
  std::string expected = "x";
  for (const int error : {EEXIST, EBADR}) {
    {
      const fault failing(GetParam().call, error);
      to.peer_sends('y');
      expected += 'y';
      for (int turns = 0; turns < 1000 && to.text != expected; ++turns) GetParam().wait(*loop);
      EXPECT_EQ(failing.hits(), 1);
    }
    EXPECT_EQ(to.text, expected);
    EXPECT_EQ(open_descriptors(), before);
    expect_arrival(to);
    expected += 'x';
  }
}

INSTANTIATE_TEST_SUITE_P(
    , UringWaitFaults,
    testing::Values(way_to_wait{"io_uring_submit_and_wait", [](gyre::loop& l) { l.run_once(); }},
                    way_to_wait{"io_uring_submit_and_wait_timeout",
                                [](gyre::loop& l) {
                                  gyre::timer later(l, [] {});
                                  later.start_after(1h);
                                  l.run_once();
                                }},
                    way_to_wait{"io_uring_submit_and_get_events", [](gyre::loop& l) { l.poll(); }}),
    [](const auto& way) { return std::string(way.param.call).substr(9); });

TEST_F(UringFaults, AThreadThatCannotHaveANewRingThrows) {
  receiver to(*loop);
  expect_arrival(to);
  const int before = open_descriptors();
  to.peer_sends('y');
  std::thread([&] {
    {
      const fault failing("io_uring_queue_init_params", EMFILE, {.times = 2});
      EXPECT_EQ(error_of([&] { loop->poll(); }), EMFILE);
      EXPECT_EQ(error_of([&] { loop->poll(); }), EMFILE);
      EXPECT_EQ(open_descriptors(), before);
    }
    run_until([&] { return to.text == "xy"; });
  }).join();
  EXPECT_EQ(open_descriptors(), before);
  expect_arrival(to);
}

// Simulates a kernel before Linux 6.0, where a ring receives nothing by itself.
TEST_F(UringFaults, AFailureToCancelAllRequestsIsIgnored) {
  uring_features old = probe_uring().features;
  old.deferred_task_running = old.multishot_receive = false;
  loop.emplace(gyre::loop_options{}, std::make_unique<uring_poller>(old));
  receiver to(*loop);
  expect_arrival(to);
  const int before = open_descriptors();
  std::thread([&] {
    const fault failing("io_uring_register_sync_cancel", EINVAL, always);
    expect_arrival(to);
    EXPECT_EQ(failing.hits(), 1);
  }).join();
  EXPECT_EQ(open_descriptors(), before);
  expect_arrival(to);
}

TEST_F(UringFaults, AFailureToCancelARequestReplacesTheRing) {
  receiver staying(*loop);
  for (const bool without_descriptors : {false, true}) {
    expect_arrival(staying);
    receiver leaving(*loop);
    expect_arrival(leaving);
    loop->poll();  // the ring has the request for what comes next
    const int before = open_descriptors();
    {
      const fault failing("io_uring_submit_and_get_events", EBUSY, always);
      const fault full("fcntl", EMFILE, {.times = without_descriptors ? -1 : 0});
      leaving.close();
      EXPECT_GT(failing.hits(), 0);
    }
    expect_arrival(staying);
    EXPECT_EQ(leaving.text, "x");
    EXPECT_EQ(open_descriptors(), before - 1);
  }
}

TEST_F(UringFaults, ABusyRingOnlyDelaysRequests) {
  // A turn of the usual length may end before the ring is full.
  loop.emplace(gyre::loop_options{.io_time = 1h}, std::make_unique<uring_poller>());
  std::deque<receiver> all;
  for (int i = 0; i < 300; ++i) all.emplace_back(*loop);
  const fault failing("io_uring_submit", EBUSY, {.times = 3});
  run_until([&] { return failing.hits() > 0; });  // there was no room for all
  for (const receiver& each : all) each.peer_sends('x');
  run_until([&] { return std::ranges::all_of(all, [](auto& each) { return each.text == "x"; }); });
}

TEST_F(UringFaults, AConnectionThatIsGoneIsNotReported) {
  auto [socket, address] = gyre::test::loopback_listener();
  descriptor listener(*loop, std::move(socket), handle_kind::stream_socket);
  struct acceptor : accept_request {
    explicit acceptor(handle& at) : accept_request(at, &note, repeat::until_cancelled, true) {}
    static void note(request& self, result what) {
      static_cast<acceptor&>(self).accepted.emplace_back(what.fd());
    }
    std::deque<unique_fd> accepted;
  } accepting(listener.handle());
  ASSERT_FALSE(listener.start(accepting));
  for (int turn = 0; turn < 3; ++turn) loop->poll();  // the first attempt is a call
  const int before = open_descriptors();
  const auto connect = [&] {
    unique_fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return client;
  };
  const unique_fd first = connect();
  {
    const fault gone("getpeername", ENOTCONN);
    run_until([&] { return gone.hits() == 1; });
  }
  EXPECT_EQ(open_descriptors(), before + 1) << "the first, and not its other end";
  const unique_fd second = connect();
  run_until([&] { return accepting.accepted.size() == 1; });
}

// A request for a descriptor that the kernel does not watch fails, and may be started again.
TEST_F(UringFaults, AFailureToPollADescriptorEndsItsRequests) {
  auto [left, right] = gyre::test::unix_pair();
  descriptor here(*loop, std::move(left), handle_kind::stream_socket);
  struct reader : read_request {
    reader(handle& from, std::span<std::byte> to) : read_request(from, to, &note) {}
    static void note(request& self, result what) { static_cast<reader&>(self).ended = what; }
    std::optional<result> ended;
  };
  std::array<std::byte, 4> bytes{};
  reader reading(here.handle(), bytes);
  struct writer : write_request {
    writer(handle& to, std::span<const std::byte> from) : write_request(to, from, &note, true) {}
    static void note(request& self, result what) { static_cast<writer&>(self).ended = what; }
    std::optional<result> ended;
  };
  const std::vector<std::byte> much(std::size_t{1} << 22);
  writer writing(here.handle(), much);
  {
    const fault failing("epoll_ctl", EBADF, {.times = 2});
    ASSERT_FALSE(here.start(reading));
    ASSERT_FALSE(here.start(writing));
    run_until([&] { return reading.ended && writing.ended; });
    EXPECT_EQ(failing.hits(), 2);
  }
  EXPECT_EQ(reading.ended->error_number(), EBADF);
  EXPECT_EQ(writing.ended->error_number(), EBADF);
  reader again(here.handle(), bytes);
  ASSERT_FALSE(here.start(again));
  ASSERT_EQ(::send(right.get(), "x", 1, MSG_NOSIGNAL), 1);
  run_until([&] { return again.ended.has_value(); });
  EXPECT_EQ(again.ended->count(), 1u);
}

TEST_F(UringFaults, TheDescriptorsConstructorThrowsThem) {
  const int before = open_descriptors();
  auto [left, right] = gyre::test::unix_pair();
  const fault failing("fstat", EBADF);
  EXPECT_EQ(error_of([&] { descriptor(*loop, std::move(left), handle_kind::other); }), EBADF);
  EXPECT_EQ(failing.hits(), 1);
  EXPECT_EQ(open_descriptors(), before + 1);
  EXPECT_EQ(loop->metrics().descriptors_watched, 0u);
}

TEST_F(UringFaults, ADescriptorThatIsNoSocketFailsItsRequests) {
  static std::optional<result> ended;
  descriptor file(*loop, unique_fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)),
                  handle_kind::stream_socket);
  std::array<std::byte, 4> bytes{};
  gyre::io::read_request reading(file.handle(), bytes,
                                 [](gyre::io::request&, result what) { ended = what; });
  ended = file.start(reading);
  if (!ended) run_until([&] { return ended.has_value(); });
  EXPECT_EQ(ended->error_number(), ENOTSOCK);
}

TEST_F(UringFaults, StartingAWatchThrowsThem) {
  const auto [left, right] = gyre::test::unix_pair();
  int reports = 0;
  gyre::fd_watch watch(*loop, left.get(), [&](gyre::readiness) {
    char byte;
    reports += ::recv(left.get(), &byte, 1, 0) == 1;
  });
  {
    const fault failing("epoll_ctl", ENOSPC);
    EXPECT_EQ(error_of([&] { watch.start(gyre::readiness::readable); }), ENOSPC);
    EXPECT_EQ(failing.hits(), 1);
    EXPECT_FALSE(watch.active());
  }
  watch.start(gyre::readiness::readable);
  ASSERT_EQ(::send(right.get(), "x", 1, 0), 1);
  const fault looking("epoll_wait", EINTR, {.times = 2});
  run_until([&] { return reports == 1; });
  EXPECT_EQ(looking.hits(), 2);
}

TEST_F(UringFaults, AnotherWayOfWakingReplacesAFailedMessage) {
  uring_poller waiting;
  const auto [left, right] = gyre::test::unix_pair();
  struct nothing : gyre::readiness_operation {
    explicit nothing(int fd)
        : readiness_operation(fd, [](readiness_operation&, gyre::readiness) {}) {}
  } silent(left.get());
  waiting.watch(silent, gyre::readiness::readable, gyre::trigger::level);
  waiting.wait(gyre::steady_time::min());
  {
    const fault failing("io_uring_register", ENOMEM, always);
    waiting.wake();
    EXPECT_EQ(failing.hits(), probe_uring().features.message_from_anywhere ? 1 : 0);
  }
  waiting.wait(gyre::steady_time::max());
  waiting.unwatch(silent);
}

}  // namespace
}  // namespace uring_faults_test
