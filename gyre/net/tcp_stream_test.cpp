// SPDX-License-Identifier: Apache-2.0
// Tests of TCP for coroutines: listening, accepting, connecting, and the ends of connections.
#include <gyre/net/tcp_stream.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/detail/connect_attempt.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/invoke.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/coroutine_sockets.hpp>
#include <tests/support/droppable.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace tcp_stream_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::inplace_stop_source;
using gyre::task;
using gyre::unique_fd;
using gyre::net::connect;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::shutdown_side;
using gyre::net::tcp_listener;
using gyre::net::tcp_stream;
using gyre::test::error_of;
using gyre::test::loopback_addresses;

const endpoint any_port(ip_address::loopback_v4(), 0);

/// Both ends of a connection on one loop; with small buffers they hold some KiB.
struct connection {
  explicit connection(gyre::event_loop& loop, bool small = false) {
    gyre::net::listener_options listening;
    gyre::net::connect_options connecting;
    if (small) {
      listening.accepted.send_buffer = connecting.socket.send_buffer = 4096;
      listening.accepted.receive_buffer = connecting.socket.receive_buffer = 4096;
    }
    tcp_listener listener(loop, any_port, listening);
    std::tie(server, client) = gyre::sync_wait(
        loop, gyre::when_all(listener.accept(), connect(listener.local_endpoint(), connecting)));
  }
  tcp_stream server;
  tcp_stream client;
};

task<> echo(tcp_stream peer) {
  try {
    for (;;) {
      auto came = co_await peer.receive();
      if (came.empty()) co_return;
      co_await peer.write_all(std::move(came));
    }
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::connection_reset) throw;
  }
}

task<> serve(tcp_listener& listener, gyre::scope& within) {
  for (;;) {
    tcp_stream peer = co_await listener.accept();
    within.spawn(echo(std::move(peer)));
  }
}

/// A listening socket with a full queue: connecting to it waits.
class full_listener {
 public:
  explicit full_listener(gyre::event_loop& loop)
      : socket_(gyre::net::socket::open(gyre::net::address_family::ipv4,
                                        gyre::net::socket_type::stream)) {
    socket_.bind(any_port);
    socket_.listen(0);
    for (;;) {
      auto attempt = as_expected(gyre::with_timeout(connect(where()), 20ms));
      auto made = gyre::sync_wait(loop, std::move(attempt));
      if (!made) break;
      fill_.push_back(std::move(*made));
    }
  }
  endpoint where() const { return socket_.local_endpoint(); }

 private:
  gyre::net::socket socket_;
  std::vector<tcp_stream> fill_;
};

TEST(Tcp, ConnectsAndEchoes) {
  gyre::loop loop;
  for (const ip_address& address : loopback_addresses()) {
    tcp_listener listener(loop, {address, 0});
    const auto client = [&](gyre::scope& all) -> task<> {
      all.spawn(serve(listener, all));
      tcp_stream peer = co_await connect(listener.local_endpoint());
      EXPECT_EQ(peer.peer_endpoint(), listener.local_endpoint());
      EXPECT_TRUE(peer.options().no_delay());
      co_await peer.write_all("to and fro");
      peer.shutdown(shutdown_side::send);
      std::array<std::byte, 10> room;
      co_await peer.read_exactly(room);
      EXPECT_EQ(std::to_integer<char>(room[9]), 'o');
      EXPECT_EQ(co_await peer.read_some(room), 0u);
      all.request_stop();
    };
    gyre::sync_wait(loop, gyre::with_scope(client));
  }
}

TEST(Tcp, TellsWhoConnectedAndPassesOptionsOn) {
  gyre::loop loop;
  tcp_listener listener(loop, any_port);
  const auto run = [&]() -> task<> {
    endpoint from;
    auto accepting = listener.accept(from);
    auto connecting = connect(listener.local_endpoint());
    auto [server, client] = co_await gyre::when_all(std::move(accepting), std::move(connecting));
    EXPECT_EQ(from, client.local_endpoint());
    EXPECT_EQ(from, server.peer_endpoint());
    EXPECT_TRUE(server.options().no_delay());
  };
  gyre::sync_wait(loop, run());
}

TEST(Tcp, HalfCloseLetsTheOtherHalfGoOn) {
  gyre::loop loop;
  connection both(loop);
  const auto run = [&]() -> task<> {
    both.client.shutdown(shutdown_side::send);
    both.client.shutdown(shutdown_side::send);
    const auto nothing = co_await both.server.receive();
    EXPECT_TRUE(nothing.empty());
    co_await both.server.write_all("still");
    const auto came = co_await both.client.receive();
    EXPECT_EQ(came.text(), "still");
    auto writing = as_expected(both.client.write_all("not any more"));
    const auto refused = co_await std::move(writing);
    EXPECT_EQ(refused.error(), std::errc::broken_pipe);
    const unique_fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    auto sending = as_expected(both.client.send_file(file.get(), 0, 100));
    const auto not_sent = co_await std::move(sending);
    EXPECT_EQ(not_sent.error(), std::errc::broken_pipe);  // and no signal
  };
  gyre::sync_wait(loop, run());
}

TEST(Tcp, CarriesMuchThroughTinyBuffersBothWaysAtOnce) {
  gyre::loop loop;
  connection both(loop, true);
  const std::string much(1 << 20, 'm');
  const auto write = [&](tcp_stream& to) -> task<> {
    co_await to.write_all(much);
    to.shutdown(shutdown_side::send);
  };
  const auto read = [&](tcp_stream& from) -> task<> {
    std::size_t size = 0;
    std::array<std::byte, 1000> room;
    for (;;) {
      const std::size_t count = co_await from.read_some(room);
      if (count == 0) break;
      size += count;
    }
    EXPECT_EQ(size, much.size());
  };
  gyre::sync_wait(loop, gyre::when_all(write(both.client), write(both.server), read(both.client),
                                       read(both.server)));
}

// Tests each operation with a reset by the peer before the operation, and while it waits.
TEST(Tcp, ResetByThePeerEndsEveryOperation) {
  gyre::loop loop;
  std::array<std::byte, 100> room;
  gyre::io::buffer lines;
  const std::string much(1 << 22, 'm');
  using step = std::function<task<>(tcp_stream&)>;
  const std::vector<step> steps = {
      [&](tcp_stream& s) -> task<> { co_await s.read_some(room); },
      [&](tcp_stream& s) -> task<> { co_await s.read_exactly(room); },
      [&](tcp_stream& s) -> task<> { co_await s.receive(); },
      [&](tcp_stream& s) -> task<> { co_await s.read_until(lines, "\n"); },
      [&](tcp_stream& s) -> task<> { co_await s.write_all(much); },
      [&](tcp_stream& s) -> task<> {
        iovec piece{const_cast<char*>(much.data()), much.size()};
        co_await s.write_all(std::span<const iovec>(&piece, 1));
      },
      [&](tcp_stream& s) -> task<> {
        const unique_fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        for (;;) co_await s.send_file(file.get(), 0, 1 << 22);
      },
  };
  for (const step& each : steps) {
    for (const bool waits : {false, true}) {
      connection both(loop);
      const auto reset = [&]() -> task<> {
        co_await gyre::yield();
        both.server.reset();
      };
      std::error_code error;
      if (waits) {
        error = error_of(loop, [](task<> one, task<> other) -> task<> {
          co_await gyre::when_all(std::move(one), std::move(other));
        }(each(both.client), reset()));
      } else {
        both.server.reset();
        error = error_of(loop, each(both.client));
      }
      EXPECT_TRUE(error == std::errc::connection_reset || error == std::errc::broken_pipe)
          << error.message();
      EXPECT_EQ(loop.io()->memory().lent(), false);
    }
  }
}

TEST(Tcp, ConnectTellsThatNobodyListens) {
  gyre::loop loop;
  endpoint nobody;
  {
    tcp_listener listener(loop, any_port);
    nobody = listener.local_endpoint();
  }
  const auto run = [&]() -> task<> { co_await connect(nobody); };
  EXPECT_EQ(error_of(loop, run()), std::errc::connection_refused);
  const std::vector<endpoint> all(2, nobody);
  const auto either = [&](bool race) -> task<> {
    if (race) co_await connect(loop, all);
    co_await connect(nobody);
  };
  for (const bool race : {false, true}) {
    try {
      gyre::sync_wait(loop, either(race));
      ADD_FAILURE() << "connected";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.what(), "connect " + nobody.to_string() + ": Connection refused");
    }
  }
  const auto no_address = []() -> task<> { co_await connect(endpoint()); };
  EXPECT_EQ(error_of(loop, no_address()), std::errc::address_family_not_supported);
  EXPECT_THROW(tcp_listener(loop, any_port, {.backlog = -1}), std::system_error);
}

TEST(Tcp, ConnectToItselfIsRefused) {
  gyre::loop loop;
  // A bound socket that does not listen and connects to itself.
  const endpoint itself = [&] {
    auto probe =
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
    probe.bind(any_port);
    return probe.local_endpoint();
  }();
  const auto run = [&]() -> task<> {
    gyre::net::connect_options from_there;
    from_there.local = itself;
    from_there.socket.reuse_address = true;
    co_await connect(itself, from_there);
  };
  EXPECT_EQ(error_of(loop, run()), std::errc::connection_refused);
  EXPECT_EQ(error_of(loop, run()), gyre::io::errc::connected_to_itself);
}

// Otherwise all connections from a local address share one range of ports, to whatever servers.
TEST(Tcp, ALocalAddressReservesNoPortBeforeItConnects) {
  gyre::loop loop;
  tcp_listener listener(loop, any_port);
  const ip_address own("127.0.0.2");
  EXPECT_EQ(gyre::net::detail::open_to_connect(listener.local_endpoint(), {own, 0})
                .local_endpoint()
                .port(),
            0);
  const auto run = [&]() -> task<> {
    gyre::net::connect_options from;
    from.local = endpoint(own, 0);
    auto peer = co_await connect(listener.local_endpoint(), from);
    EXPECT_TRUE(peer.options().bind_address_no_port());
    EXPECT_EQ(peer.local_endpoint().address(), own);
    EXPECT_NE(peer.local_endpoint().port(), 0);
  };
  gyre::sync_wait(loop, run());
}

TEST(Tcp, ConnectAndAcceptCanBeStopped) {
  gyre::loop loop;
  full_listener full(loop);
  tcp_listener listener(loop, any_port);
  using operation = std::function<task<>()>;
  const std::vector<operation> operations = {
      [&]() -> task<> { co_await connect(full.where()); },
      [&]() -> task<> { co_await listener.accept(); },
      [&]() -> task<> { co_await listener.accept_socket(); },
  };
  for (const operation& each : operations) {
    inplace_stop_source before;
    before.request_stop();
    EXPECT_EQ(error_of(loop, each(), before.get_token()), std::errc::operation_canceled);
    inplace_stop_source here;
    loop.post([&] { here.request_stop(); });
    EXPECT_EQ(error_of(loop, each(), here.get_token()), std::errc::operation_canceled);
    inplace_stop_source there;
    std::jthread stopper;
    loop.post([&] { stopper = std::jthread([&] { there.request_stop(); }); });
    EXPECT_EQ(error_of(loop, each(), there.get_token()), std::errc::operation_canceled);
    EXPECT_EQ(error_of(loop, gyre::with_timeout(each(), 1ms)), std::errc::timed_out);
  }
  const auto within = [&]() -> task<> { co_await gyre::with_timeout(listener.accept(), 1ms); };
  EXPECT_EQ(error_of(loop, within()), std::errc::timed_out);
  const auto close = [&]() -> task<> {
    listener.close();
    co_return;
  };
  const auto accept = [&]() -> task<> { co_await listener.accept(); };
  const auto closed = [&]() -> task<> { co_await gyre::when_all(accept(), close()); };
  EXPECT_EQ(error_of(loop, closed()), std::errc::operation_canceled);
  EXPECT_EQ(error_of(loop, accept()), std::errc::bad_file_descriptor);
}

TEST(Tcp, AcceptsThatLoseARaceLoseNoConnection) {
  gyre::loop loop;
  tcp_listener listener(loop, any_port);
  gyre::sync_wait(
      loop, gyre::invoke([&]() -> task<> {
        std::vector<tcp_stream> clients;
        std::vector<endpoint> accepted;
        for (int i = 0; i < 100; ++i) {
          auto ended =
              co_await gyre::when_any(listener.accept(), connect(listener.local_endpoint()));
          auto& [server, client] = ended.values;
          if (server) accepted.push_back(server->peer_endpoint());
          if (client) clients.push_back(std::move(*client));
        }
        for (const tcp_stream& client : clients) {
          while (std::ranges::find(accepted, client.local_endpoint()) == accepted.end()) {
            const tcp_stream server = co_await gyre::with_timeout(listener.accept(), 1min);
            accepted.push_back(server.peer_endpoint());
          }
        }
      }));
}

TEST(Tcp, AcceptOutlastsALackOfDescriptors) {
  gyre::loop loop;
  tcp_listener listener(loop, any_port);
  const endpoint where = listener.local_endpoint();
  std::vector<gyre::net::socket> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream));
  }
  const auto begin = [&](int index) {
    static_cast<void>(clients[static_cast<std::size_t>(index)].connect(where));
  };
  ::rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  // The lowest free descriptor is the first one beyond the limit.
  const int lowest = unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
  ::rlimit none = old;
  none.rlim_cur = static_cast<::rlim_t>(lowest);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);

  std::uint64_t turns = 0;
  const auto starve = [&]() -> task<> {
    for (int i = 0; i < 4; ++i) begin(i);
    auto accepting = as_expected(gyre::with_timeout(listener.accept(), 30ms));
    const auto accepted = co_await std::move(accepting);
    EXPECT_EQ(accepted.error(), std::errc::timed_out);
    EXPECT_EQ(listener.refused(), 4u);
    turns = loop.metrics().turns;
  };
  gyre::sync_wait(loop, starve());
  EXPECT_LT(turns, 20u);  // the listener waits between its attempts
  for (int i = 0; i < 4; ++i) {
    char byte = 0;
    EXPECT_EQ(::recv(clients[static_cast<std::size_t>(i)].fd(), &byte, 1, 0), 0);  // told
  }

  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  begin(4);
  const tcp_stream accepted = gyre::sync_wait(loop, listener.accept());
  EXPECT_TRUE(accepted.is_open());
  EXPECT_EQ(listener.refused(), 4u);
}

TEST(Tcp, AcceptWithoutEvenAReserveTriesAgainLater) {
  gyre::loop loop;
  ::rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  auto listening =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  listening.bind(any_port);
  listening.listen();
  const endpoint where = listening.local_endpoint();
  auto client =
      gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
  const int lowest = unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
  ::rlimit none = old;
  none.rlim_cur = static_cast<::rlim_t>(lowest);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  tcp_listener listener(loop, std::move(listening));  // finds no descriptor for its reserve
  static_cast<void>(client.connect(where));

  const auto accept = [&]() -> task<> { co_await listener.accept(); };
  // While the listener pauses, a wait for it can be stopped, limited and destroyed, and it can be
  // closed.
  EXPECT_EQ(error_of(loop, gyre::with_timeout(accept(), 3ms)), std::errc::timed_out);
  const auto within = [&]() -> task<> { co_await gyre::with_timeout(listener.accept(), 3ms); };
  EXPECT_EQ(error_of(loop, within()), std::errc::timed_out);
  const auto second = [&]() -> task<> {
    auto accepting = as_expected(listener.accept());
    const auto refused = co_await std::move(accepting);
    EXPECT_EQ(refused.error(), std::errc::operation_in_progress);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  };
  gyre::sync_wait(loop, gyre::when_all(accept(), second()));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto close = [&]() -> task<> {
    listener.close();
    co_return;
  };
  const auto closed = [&]() -> task<> { co_await gyre::when_all(accept(), close()); };
  EXPECT_EQ(error_of(loop, closed()), std::errc::operation_canceled);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
}

TEST(Tcp, ConnectsAndDisconnectsThousandsOfTimes) {
  gyre::loop loop;
  tcp_listener listener(loop, any_port);
  int made = 0;
  const auto run = [&](gyre::scope& all) -> task<> {
    all.spawn(serve(listener, all));
    for (; made < 2000; ++made) {
      tcp_stream peer = co_await connect(listener.local_endpoint());
      if (made % 4 == 0) co_await peer.write_all("x");
      if (made % 4 == 1) peer.shutdown(shutdown_side::both);
      peer.reset();  // so that no socket stays in TIME_WAIT
    }
    all.request_stop();
  };
  gyre::sync_wait(loop, gyre::with_scope(run));
  EXPECT_EQ(made, 2000);
}

TEST(Tcp, RaceTakesTheFirstThatAnswersAndClosesTheOthers) {
  gyre::loop loop;
  full_listener silent(loop);
  tcp_listener listener(loop, any_port);
  endpoint nobody;
  {
    tcp_listener gone(loop, any_port);
    nobody = gone.local_endpoint();
  }
  const auto race = [&](std::vector<endpoint> candidates,
                        std::chrono::nanoseconds delay) -> task<endpoint> {
    tcp_stream won = co_await connect(loop, std::move(candidates), {.attempt_delay = delay});
    co_return won.peer_endpoint();
  };
  const endpoint good = listener.local_endpoint();
  EXPECT_EQ(gyre::sync_wait(loop, race({good}, 1h)), good);
  // A failure starts the next attempt at once.
  EXPECT_EQ(gyre::sync_wait(loop, race({nobody, nobody, good}, 1h)), good);
  // A silent server starts the next attempt after the delay.
  EXPECT_EQ(gyre::sync_wait(loop, race({silent.where(), good}, 1ms)), good);
  const auto fails = [&](std::vector<endpoint> candidates) -> task<> {
    co_await race(std::move(candidates), 1ms);
  };
  EXPECT_EQ(error_of(loop, fails({nobody, nobody})), std::errc::connection_refused);
  EXPECT_EQ(error_of(loop, fails({})), std::errc::invalid_argument);
  inplace_stop_source source;
  loop.post([&] { source.request_stop(); });
  EXPECT_EQ(error_of(loop, fails({silent.where(), silent.where()}), source.get_token()),
            std::errc::operation_canceled);
  EXPECT_EQ(error_of(loop, gyre::with_timeout(fails({silent.where()}), 1ms)), std::errc::timed_out);
}

TEST(Tcp, RaceTakesIPv6AndIPv4InTurns) {
  const std::vector<ip_address> families = loopback_addresses();
  if (families.size() < 2) GTEST_SKIP() << "no IPv6 here";
  gyre::loop loop;
  const auto race = [&](std::vector<endpoint> candidates) -> task<endpoint> {
    tcp_stream won = co_await connect(loop, std::move(candidates), {.attempt_delay = 1h});
    co_return won.peer_endpoint();
  };
  for (const bool v4_first : {true, false}) {
    const ip_address& first = families[v4_first ? 0 : 1];
    const ip_address& other = families[v4_first ? 1 : 0];
    tcp_listener of_first(loop, {first, 0}), of_other(loop, {other, 0});
    const endpoint good = of_first.local_endpoint();
    const endpoint also_good = of_other.local_endpoint();
    const auto nobody = [&](const ip_address& address) {
      tcp_listener gone(loop, {address, 0});
      return gone.local_endpoint();
    };
    const endpoint none = nobody(first), none_either = nobody(other);
    // Each attempt is refused at once, until a server answers.
    EXPECT_EQ(gyre::sync_wait(loop, race({none, good, also_good})), also_good);
    EXPECT_EQ(gyre::sync_wait(loop, race({none, good, none_either, also_good})), good);
    EXPECT_EQ(gyre::sync_wait(loop, race({none, none, good, none_either, also_good})), also_good);
    EXPECT_EQ(gyre::sync_wait(loop, race({none, none, good, none_either})), good);
  }
}

TEST(Tcp, ConnectsByName) {
  gyre::loop loop;
  gyre::net::resolver names(loop);
  tcp_listener listener(loop, any_port);
  // The name also has an IPv6 address, without a listener.
  const auto run = [&]() -> task<> {
    auto made = co_await connect(names, "localhost", listener.local_endpoint().port());
    EXPECT_EQ(made.peer_endpoint(), listener.local_endpoint());
  };
  gyre::sync_wait(loop, run());
  const auto no_service = [&]() -> task<> { co_await connect(names, "localhost", "no-service"); };
  EXPECT_EQ(error_of(loop, no_service()), gyre::net::resolve_errc::service_not_found);
  const auto nobody = [&]() -> task<> { co_await connect(names, "no.such.host.invalid", 7); };
  gyre::inplace_stop_source source;
  source.request_stop();
  EXPECT_EQ(error_of(loop, nobody(), source.get_token()), std::errc::operation_canceled);
}

TEST(Tcp, ManyConnectionsBetweenTwoLoops) {
  gyre::loop_thread server;
  gyre::loop loop;
  std::promise<endpoint> listens;
  inplace_stop_source stop;
  const auto serve_all = [&]() -> task<> {
    tcp_listener listener(server.loop(), any_port);
    listens.set_value(listener.local_endpoint());
    const auto body = [&](gyre::scope& all) { return serve(listener, all); };
    try {
      co_await gyre::with_scope(body);
      ADD_FAILURE() << "was not stopped";
    } catch (const gyre::operation_cancelled&) {  // as it should
    }
  };
  auto served = gyre::spawn_future(server.loop(), serve_all(), stop.get_token());
  const endpoint where = listens.get_future().get();
  const auto client = [&]() -> task<> {
    tcp_stream peer = co_await connect(where);
    std::array<std::byte, 100> sent{};
    std::array<std::byte, 100> came;
    for (int i = 0; i < 20; ++i) {
      co_await peer.write_all(sent);
      co_await gyre::with_timeout(peer.read_exactly(came), 1min);
    }
  };
  std::vector<task<>> clients;
  for (int i = 0; i < 50; ++i) clients.push_back(client());
  gyre::sync_wait(loop, gyre::when_all(std::move(clients)));
  stop.request_stop();
  served.get();
}

TEST(Tcp, WaitingCoroutinesMayBeDestroyed) {
  gyre::loop loop;
  gyre::executor& here = loop;
  const auto wait = [](gyre::executor&, task<> work) -> gyre::test::droppable {
    co_await std::move(work);
    ADD_FAILURE() << "went on";
  };
  full_listener full(loop);
  tcp_listener listener(loop, any_port);
  connection ends(loop);
  std::array<std::byte, 8> room;
  const auto connecting = [&]() -> task<> { co_await connect(full.where()); };
  const auto accepting = [&]() -> task<> { co_await listener.accept(); };
  const auto reading = [&]() -> task<> {
    co_await gyre::with_timeout(ends.server.read_exactly(room), 1h);
  };
  wait(here, connecting()).drop();
  wait(here, accepting()).drop();
  wait(here, reading()).drop();
  // A wait whose listener or stream has just been closed can be dropped, too.
  auto accepts = wait(here, accepting());
  listener.close();
  accepts.drop();
  auto reads = wait(here, reading());
  ends.server.close();
  reads.drop();
  while (loop.poll()) continue;
}

TEST(Tcp, HandsConnectionsToAnotherLoop) {
  gyre::loop loop;
  gyre::loop_thread other;
  tcp_listener listener(loop, any_port);
  std::future<void> echoed;
  const auto hand_over = [&]() -> task<> {
    gyre::net::socket accepted = co_await listener.accept_socket();
    const auto there = [](gyre::event_loop& where, gyre::net::socket given) -> task<> {
      co_await echo(tcp_stream(where, std::move(given)));
    };
    echoed = gyre::spawn_future(other.loop(), there(other.loop(), std::move(accepted)));
  };
  const auto client = [&]() -> task<> {
    tcp_stream peer = co_await connect(listener.local_endpoint());
    co_await peer.write_all("over there");
    const auto came = co_await peer.receive();
    EXPECT_EQ(came.text(), "over there");
  };
  gyre::sync_wait(loop, gyre::when_all(hand_over(), client()));
  echoed.get();
}

}  // namespace
}  // namespace tcp_stream_test
