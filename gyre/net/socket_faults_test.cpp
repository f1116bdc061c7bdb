// SPDX-License-Identifier: Apache-2.0
// Tests of failures of every system call that coroutines' sockets, servers and clients make: each
// failure is reported, and leaks nothing.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/tcp_client.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/udp_socket.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/system_call_faults.hpp>
#include <tests/support/idle_time_poller.hpp>
#include <tests/support/io_facts.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace socket_faults_test {
namespace {

using gyre::task;
using gyre::unique_fd;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::tcp_listener;
using gyre::net::tcp_stream;
using gyre::net::udp_socket;
using gyre::testing::fault;
using gyre::testing::open_descriptors;

const endpoint any_port(ip_address::loopback_v4(), 0);

/// Connected streams, sockets with pending data, a listener with a pending connection.
class SocketFaults : public testing::Test {
 protected:
  SocketFaults() {
    const std::byte byte{'x'};
    const int own = file_.get();
    gyre::sync_wait(loop_, pair_.second.send_fds(std::span(&byte, 1), std::span(&own, 1)));
    gyre::sync_wait(loop_, udp_.send_to("x", udp_.local_endpoint()));
  }

  std::error_code error_of(const std::function<task<>()>& action) {
    try {
      gyre::sync_wait(loop_, action());
      return {};
    } catch (const std::system_error& error) {
      return error.code();
    }
  }

  gyre::loop loop_;
  tcp_listener listener_{loop_, any_port};
  std::pair<gyre::net::unix_stream, gyre::net::unix_stream> pair_ = gyre::net::stream_pair(loop_);
  udp_socket udp_{loop_, any_port};
  unique_fd file_{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  std::array<std::byte, 100> room_{};
  iovec piece_{room_.data(), room_.size()};
  gyre::net::datagram_batch batch_{4, 100};
  gyre::io::buffer buffer_;
};

TEST_F(SocketFaults, AreToldAndLeaveNothingBehind) {
  struct expectation {
    const char* call;
    int error;
    std::function<task<>()> action;
    int after = 0;
  };
  auto& stream = pair_.first;
  const char* const watch = gyre::test::facts_of(loop_).watch;
  const auto bytes = std::as_bytes(std::span(room_));
  const auto accept = [&]() -> task<> {
    const auto client =
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
    static_cast<void>(client.connect(listener_.local_endpoint()));
    co_await listener_.accept();
  };
  const auto connect = [&]() -> task<> { co_await gyre::net::connect(listener_.local_endpoint()); };
  const auto listen = [&]() -> task<> {
    tcp_listener another(loop_, any_port);
    co_return;
  };
  const auto send_fds = [&]() -> task<> {
    const int own = file_.get();
    co_await stream.send_fds(bytes, std::span(&own, 1));
  };
  std::vector<expectation> all = {
      {"socket", EMFILE, connect},
      {"setsockopt", ENOPROTOOPT, connect},
      {"connect", ENETUNREACH, connect},
      {"socket", ENFILE, listen},
      {"setsockopt", ENOMEM, listen},
      {"bind", EADDRINUSE, listen},
      {"listen", EADDRINUSE, listen},
      {"accept4", EINVAL, accept},
      {"recv", ECONNRESET, [&]() -> task<> { co_await stream.receive(); }},
      {"recv", ECONNRESET, [&]() -> task<> { co_await stream.read_some(room_); }},
      {"recv", ETIMEDOUT, [&]() -> task<> { co_await stream.read_exactly(room_); }},
      {"recv", EIO, [&]() -> task<> { co_await stream.read_until(buffer_, "\n"); }},
      {"send", EPIPE, [&]() -> task<> { co_await stream.write_all("x"); }},
      {"send", ENOBUFS, [&]() -> task<> { co_await stream.write_some("x"); }},
      {"sendmsg", EPIPE,
       [&]() -> task<> { co_await stream.write_all(std::span<const iovec>(&piece_, 1)); }},
      {"sendfile", EIO, [&]() -> task<> { co_await stream.send_file(file_.get(), 0, 100); }},
      {"poll", ENOMEM, [&]() -> task<> { co_await stream.wait_writable(); }},
      {"sendmsg", ENOBUFS, send_fds},
      {"recvmsg", ECONNRESET, [&]() -> task<> { co_await stream.receive_fds(room_); }},
      {"recvmsg", ECONNREFUSED, [&]() -> task<> { co_await udp_.receive_from(room_); }},
      {"recv", ECONNREFUSED, [&]() -> task<> { co_await udp_.receive(room_); }},
      {"recvmmsg", ENETDOWN, [&]() -> task<> { co_await udp_.receive_batch(batch_); }},
      {"sendmsg", EPERM, [&]() -> task<> { co_await udp_.send_to("x", any_port); }},
      {"sendmmsg", EHOSTUNREACH,
       [&]() -> task<> {
         batch_.clear();
         static_cast<void>(batch_.add("x", any_port));
         co_await udp_.send_batch(batch_);
       }},
      {"socketpair", EMFILE,
       [&]() -> task<> {
         gyre::net::stream_pair(loop_);
         co_return;
       }},
      {"pipe2", ENFILE,
       [&]() -> task<> {
         gyre::io::make_pipe(loop_);
         co_return;
       }},
  };
  if (watch != nullptr) {
    all.push_back({watch, ENOSPC, connect});
    all.push_back({watch, ENOSPC, listen});
    all.push_back({watch, ENOSPC,
                   [&]() -> task<> {
                     gyre::net::stream_pair(loop_);
                     co_return;
                   },
                   1});
  }
  for (const expectation& each : all) {
    const int before = open_descriptors();
    const fault failing(each.call, each.error, {.after = each.after});
    EXPECT_EQ(error_of(each.action), std::error_code(each.error, std::system_category()))
        << each.call;
    EXPECT_EQ(failing.hits(), 1) << each.call;
    EXPECT_EQ(open_descriptors(), before) << each.call;
    EXPECT_FALSE(loop_.io()->memory().lent()) << each.call;
  }
  // All sockets are still usable.
  const auto came = gyre::sync_wait(loop_, stream.receive_fds(room_));
  EXPECT_EQ(came.fds.size(), 1u);
  EXPECT_EQ(gyre::sync_wait(loop_, udp_.receive(room_)), 1u);
  EXPECT_FALSE(error_of(accept));
  EXPECT_FALSE(error_of(connect));
}

TEST_F(SocketFaults, AConnectionThatCannotBeWatchedFailsWhenItHasToWait) {
  const char* const watch = gyre::test::facts_of(loop_).watch;
  if (watch == nullptr) GTEST_SKIP() << "a loop on io_uring serves every socket";
  auto client =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  static_cast<void>(client.connect(listener_.local_endpoint()));
  tcp_stream accepted = gyre::sync_wait(loop_, listener_.accept());
  const fault no_watch(watch, ENOSPC);
  EXPECT_EQ(error_of([&]() -> task<> { co_await accepted.receive(); }),
            std::error_code(ENOSPC, std::system_category()));
  EXPECT_EQ(no_watch.hits(), 1);
}

TEST_F(SocketFaults, InterruptedCallsAreRetried) {
  auto& stream = pair_.first;
  for (const char* call : {"recvmsg", "sendmsg", "send", "accept4"}) {
    const fault interrupted(call, EINTR, {.times = 3});
    const auto action = [&]() -> task<> {
      co_await stream.write_all("x");
      co_await stream.write_all(std::span<const iovec>(&piece_, 1));
      auto came = co_await pair_.second.receive_fds(room_);
      const auto client =
          gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
      static_cast<void>(client.connect(listener_.local_endpoint()));
      co_await listener_.accept();
    };
    EXPECT_FALSE(error_of(action)) << call;
    EXPECT_EQ(interrupted.hits(), 3) << call;
  }
  const fault aborted("accept4", ECONNABORTED);
  const auto accept = [&]() -> task<> {
    const auto client =
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
    static_cast<void>(client.connect(listener_.local_endpoint()));
    co_await listener_.accept();
  };
  EXPECT_FALSE(error_of(accept));
}

TEST_F(SocketFaults, SegmentsAreSentOneByOneWhenTheKernelCannotCutThem) {
  const std::vector<std::byte> much(5000);
  const auto send = [&]() -> task<> {
    const fault no_checksums("sendmsg", EIO);
    const std::size_t sent = co_await udp_.send_segments(much, 1000, udp_.local_endpoint());
    EXPECT_EQ(sent, much.size());
    EXPECT_EQ(no_checksums.hits(), 1);
    std::array<std::byte, 2000> room;
    EXPECT_EQ(co_await udp_.receive(room), 1u);  // the datagram of the set-up
    for (int i = 0; i < 5; ++i) EXPECT_EQ(co_await udp_.receive(room), 1000u);
  };
  gyre::sync_wait(loop_, send());
}

// --- Servers and clients ---

using gyre::net::tcp_client;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;
using gyre::net::test::peer;
using gyre::net::test::settle;
using gyre::net::test::turn_until;

std::error_code as_code(int error) { return {error, std::system_category()}; }

/// An echo server that records the ends of its connections.
class ServerFaults : public testing::Test {
 protected:
  ServerFaults() {
    server_.on_message([](tcp_connection& c, gyre::io::input& in) {
      c.send(in.bytes());
      in.consume_all();
    });
    server_.on_close([this](tcp_connection&, std::error_code why) { ends_.push_back(why); });
    server_.on_accept_error([this](std::error_code why) { pauses_.push_back(why); });
  }
  void start() {
    server_.listen(any_port);
    server_.start();
    settle(loop_);
  }

  int thrown_ = 0;
  gyre::loop loop_{gyre::loop_options{.on_exception = [this](std::exception_ptr) { ++thrown_; }},
                   std::make_unique<gyre::test::idle_time_poller>()};
  // The shortest possible pauses.
  tcp_server server_{
      loop_, tcp_server_options{.connections = {.close_timeout = std::chrono::milliseconds(20)},
                                .accept_backoff = std::chrono::nanoseconds(0),
                                .accept_backoff_limit = std::chrono::nanoseconds(0)}};
  std::vector<std::error_code> ends_, pauses_;
};

TEST_F(ServerFaults, ListenThrowsThem) {
  for (const char* call : {"socket", "setsockopt", "bind", "listen", "getsockname"}) {
    const int before = open_descriptors();
    const fault failing(call, ENOBUFS);
    try {
      server_.listen(any_port);
      ADD_FAILURE() << call;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), as_code(ENOBUFS)) << call;
    }
    EXPECT_EQ(open_descriptors(), before) << call;
  }
  EXPECT_THROW(static_cast<void>(server_.local_endpoint()), std::out_of_range);
}

TEST_F(ServerFaults, TheLoopReportsAFailureToWatchTheListener) {
  const char* const watch = gyre::test::facts_of(loop_).watch;
  if (watch == nullptr) GTEST_SKIP() << "a loop on io_uring serves every socket";
  const int before = open_descriptors();
  server_.listen(any_port);
  const fault full(watch, ENOSPC);
  server_.start();
  settle(loop_);
  EXPECT_EQ(full.hits(), 1);
  EXPECT_EQ(thrown_, 1);
  EXPECT_EQ(open_descriptors(), before);
}

// Pitfall: accepting spins where the process, or the machine, has no descriptors left.
class FailingAccept : public ServerFaults, public testing::WithParamInterface<int> {};

TEST_P(FailingAccept, MakesItPause) {
  const int before = open_descriptors();
  server_.listen(any_port);
  {
    peer client(server_.local_endpoint());
    {
      const fault exhausted("accept4", GetParam(), {.times = -1});
      server_.start();
      turn_until(loop_, [&] { return exhausted.hits() > 2; });  // the server tries again
      loop_.run_for(std::chrono::milliseconds(20));
      EXPECT_LT(exhausted.hits(), 100) << "but does not spin";
    }
    ASSERT_EQ(pauses_.size(), 1u) << "told once";
    EXPECT_EQ(pauses_[0], as_code(GetParam()));
    client.send("x");
    EXPECT_EQ(client.receive(loop_, 1), "x") << "it recovers";
  }
  bool stopped = false;
  server_.stop(std::chrono::seconds(5), [&] { stopped = true; });
  turn_until(loop_, [&] { return stopped; });
  EXPECT_EQ(open_descriptors(), before);
}

INSTANTIATE_TEST_SUITE_P(ForWantOf, FailingAccept,
                         testing::Values(EMFILE, ENFILE, ENOBUFS, ENOMEM));

// A line for each series would let clients fill a log.
TEST_F(ServerFaults, TheDefaultTellsFewOfManySeriesOfFailures) {
  if (gyre::test::facts_of(loop_).watch == nullptr) GTEST_SKIP() << "a ring goes on accepting";
  tcp_server server(loop_, tcp_server_options{.accept_backoff = std::chrono::nanoseconds(0),
                                              .accept_backoff_limit = std::chrono::nanoseconds(0)});
  server.listen(any_port);
  server.start();
  settle(loop_);
  constexpr std::uint64_t series = 100;
  testing::internal::CaptureStderr();
  for (std::uint64_t i = 0; i < series; ++i) {
    const fault exhausted("accept4", ENOBUFS);
    const peer client(server.local_endpoint());
    turn_until(loop_, [&] { return server.metrics().accepted > i; });
  }
  const std::uint64_t failures = server.metrics().accept_errors;
  const std::string printed = testing::internal::GetCapturedStderr();
  const auto lines = std::ranges::count(printed, '\n');
  EXPECT_EQ(failures, series);
  EXPECT_GE(lines, 1);
  EXPECT_LT(lines, static_cast<std::ptrdiff_t>(series)) << printed;
}

TEST_F(ServerFaults, AConnectionAbortedBeforeAcceptIsIgnored) {
  server_.listen(any_port);
  const fault aborted("accept4", ECONNABORTED);
  server_.start();
  peer client(server_.local_endpoint());
  client.send("x");
  EXPECT_EQ(client.receive(loop_, 1), "x");
  EXPECT_EQ(aborted.hits(), 1);
  EXPECT_TRUE(pauses_.empty()) << "no matter of the server's";
}

TEST_F(ServerFaults, AConnectionThatCannotBeWatchedEndsWithTheError) {
  const char* const watch = gyre::test::facts_of(loop_).watch;
  if (watch == nullptr) GTEST_SKIP() << "a loop on io_uring serves every socket";
  start();
  const int before = open_descriptors();
  {
    const peer client(server_.local_endpoint());
    const fault full(watch, ENOSPC);
    turn_until(loop_, [&] { return !ends_.empty(); });
    EXPECT_EQ(full.hits(), 1);
    EXPECT_EQ(ends_[0], as_code(ENOSPC));
    EXPECT_EQ(server_.metrics().connections, 0u);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(ServerFaults, ReceiveAndSendErrorsEndTheConnection) {
  start();
  const std::vector<std::pair<const char*, int>> all = {
      {"recv", ECONNRESET}, {"recv", ETIMEDOUT}, {"send", EPIPE}, {"send", ENOBUFS}};
  for (const auto& [call, error] : all) {
    ends_.clear();
    const int before = open_descriptors();
    {
      const peer client(server_.local_endpoint());
      client.send("x");
      const fault failing(call, error);
      turn_until(loop_, [&] { return !ends_.empty(); });
      EXPECT_EQ(failing.hits(), 1) << call;
      EXPECT_EQ(ends_[0], as_code(error)) << call;
    }
    turn_until(loop_, [&] { return server_.metrics().connections == 0; });
    EXPECT_EQ(open_descriptors(), before) << call;
  }
}

TEST_F(ServerFaults, TheClientIsToldOfErrorsOfConnecting) {
  start();
  std::vector<std::pair<const char*, int>> all = {{"socket", EMFILE},
                                                  {"connect", ENETUNREACH},
                                                  {"getsockname", ENOBUFS},
                                                  {"getpeername", ENOTCONN}};
  if (const char* const watch = gyre::test::facts_of(loop_).watch) all.emplace_back(watch, ENOSPC);
  for (const auto& [call, error] : all) {
    const int before = open_descriptors();
    server_.pause_accepting();  // the server's calls must not be counted
    settle(loop_);
    {
      tcp_client client(loop_);
      std::vector<std::error_code> failures;
      client.on_connect_failed([&](std::error_code why, std::size_t, bool last) {
        failures.push_back(why);
        EXPECT_TRUE(last);
      });
      const fault failing(call, error);
      client.connect(server_.local_endpoint());
      turn_until(loop_, [&] { return !failures.empty(); });
      EXPECT_EQ(failing.hits(), 1) << call;
      EXPECT_EQ(failures[0], as_code(error)) << call;
      EXPECT_FALSE(client.connected());
    }
    server_.resume_accepting();
    settle(loop_);
    turn_until(loop_, [&] { return server_.metrics().connections == 0; });
    EXPECT_EQ(open_descriptors(), before) << call;
  }
}

}  // namespace
}  // namespace socket_faults_test
