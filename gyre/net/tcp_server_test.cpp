// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_server.hpp>

#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/runtime/runtime.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/full_inbox.hpp>
#include <tests/support/io_in_virtual_time.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tcp_server_test {
namespace {

using namespace gyre::net::test;
using gyre::io::input;
using gyre::net::accept_strategy;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::tcp_connection;
using gyre::net::tcp_connection_ref;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;

void echo(tcp_connection& c, input& in) {
  c.send(in.bytes());
  in.consume_all();
}

class TcpServer : public testing::Test {
 protected:
  void start(tcp_server_options how = {}, endpoint at = any_port()) {
    server.emplace(loop, std::move(how));
    server->on_message(&echo).on_close([this](tcp_connection&, std::error_code) { ++closes; });
    server->listen(at);
    server->start();
  }
  void wait_for_connections(std::size_t count) {
    turn_until(loop, [&] { return server->metrics().connections == count; });
  }
  peer connect() { return peer(server->local_endpoint()); }
  // Turns the loop for a while in which nothing must happen.
  void idle() {
    for (int i = 0; i < 10; ++i) loop.run_for(200us);
  }

  gyre::loop loop;
  std::optional<tcp_server> server;
  int closes = 0;
};

TEST_F(TcpServer, ServesEveryFamily) {
  for (const endpoint& at :
       {any_port(), endpoint(ip_address::loopback_v6(), 0),
        endpoint::unix_abstract("gyre-tcp-server-test-" + std::to_string(::getpid()))}) {
    start({.name = "families"}, at);
    EXPECT_EQ(server->name(), "families");
    peer client = connect();
    client.send("hello");
    EXPECT_EQ(client.receive(loop, 5), "hello");
    client.close();
    wait_for_connections(0);
    server.reset();
    settle(loop);
  }
}

TEST_F(TcpServer, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(tcp_server(loop, {.max_connections = 0}), std::invalid_argument);
  EXPECT_NO_THROW(tcp_server(loop, {.connections = {.high_water = 10}}));
  EXPECT_THROW(tcp_server(loop, {.connections = {.high_water = 10, .low_water = 10}}),
               std::invalid_argument);
  EXPECT_THROW(tcp_server(loop, {.connections = {.idle_timeout = -1ns}}), std::invalid_argument);
  EXPECT_THROW(tcp_server(loop, {.connections = {.write_timeout = -1ns}}), std::invalid_argument);
  EXPECT_THROW(tcp_server(loop, {.connections = {.close_timeout = -1ns}}), std::invalid_argument);
  EXPECT_THROW(tcp_server(std::vector<gyre::event_loop*>()), std::invalid_argument);
  EXPECT_THROW(tcp_server(std::vector<gyre::event_loop*>{&loop, nullptr}), std::invalid_argument);
}

TEST_F(TcpServer, ListensAtSeveralPlaces) {
  start();
  server->listen(any_port());  // after start(), too
  EXPECT_NE(server->local_endpoint(0), server->local_endpoint(1));
  EXPECT_THROW(static_cast<void>(server->local_endpoint(2)), std::out_of_range);
  EXPECT_THROW(server->start(), std::logic_error);
  EXPECT_THROW(server->listen(server->local_endpoint(0)), std::system_error);
  for (std::size_t i = 0; i < 2; ++i) {
    peer client(server->local_endpoint(i));
    client.send("x");
    client.receive(loop, 1);
  }
}

TEST_F(TcpServer, ThePortIsFreeAgainAfterwards) {
  start();
  const endpoint place = server->local_endpoint();
  peer client = connect();
  wait_for_connections(1);
  server->stop(1ms);
  wait_for_connections(0);
  settle(loop);
  start({}, place);
  peer next = connect();
  wait_for_connections(1);
}

TEST_F(TcpServer, LeavesConnectionsAboveTheLimitInTheQueue) {
  start({.max_connections = 2});
  std::vector<peer> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(connect());
  for (peer& each : clients) each.send("x");
  wait_for_connections(2);
  idle();
  EXPECT_EQ(server->metrics().connections, 2u);
  EXPECT_EQ(server->metrics().accepted, 2u);
  clients[0].close();
  clients[1].close();
  EXPECT_EQ(clients[2].receive(loop, 1), "x");
  EXPECT_EQ(clients[3].receive(loop, 1), "x");
  EXPECT_EQ(server->metrics().accepted, 4u);
  EXPECT_EQ(server->metrics().refused, 0u);
}

// A connection's end schedules an accept, and another peer takes the slot before that accept runs.
TEST_F(TcpServer, StaysFullWhenAPlaceIsTakenAtOnce) {
  server.emplace(loop, tcp_server_options{.max_connections = 1});
  auto [served, other] = gyre::net::socket_pair();
  gyre::unique_fd adopted = served.release();
  server->on_message(&echo).on_close([&](tcp_connection&, std::error_code) {
    if (adopted) server->adopt(std::move(adopted));
  });
  server->listen(any_port());
  server->start();
  peer first = connect();
  first.send("x");
  first.receive(loop, 1);
  peer waiting = connect();
  first.close();
  turn_until(loop, [&] { return server->metrics().accepted == 2; });
  idle();
  EXPECT_EQ(server->metrics().accepted, 2u);
  EXPECT_EQ(server->metrics().refused, 0u);
  other.close();
  waiting.send("y");
  EXPECT_EQ(waiting.receive(loop, 1), "y");
}

// Regression on io_uring, where the kernel accepts the whole queue before the server can stop it.
TEST_F(TcpServer, TakesNoDescriptorsBeyondItsLimit) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  start({.max_connections = 3});
  settle(loop);
  const auto before = descriptors();
  std::vector<peer> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(connect());
  wait_for_connections(3);
  idle();
  EXPECT_EQ(descriptors(), before + 40 + 3);
}

TEST_F(TcpServer, PausesAccepting) {
  start();
  server->pause_accepting();
  settle(loop);
  peer client = connect();
  client.send("x");
  idle();
  EXPECT_EQ(server->metrics().accepted, 0u);
  server->resume_accepting();
  EXPECT_EQ(client.receive(loop, 1), "x");
}

// Pitfall: on EMFILE, accept spins or the process aborts.
TEST_F(TcpServer, SurvivesThatThereAreNoDescriptorsLeft) {
  server.emplace(loop, tcp_server_options{.accept_backoff = 1ms, .accept_backoff_limit = 4ms});
  std::vector<std::error_code> errors;
  server->on_message(&echo).on_accept_error([&](std::error_code why) { errors.push_back(why); });
  server->listen(any_port());
  std::vector<gyre::net::socket> sockets;
  for (int i = 0; i < 3; ++i) {
    sockets.push_back(
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream));
  }
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const gyre::unique_fd next_free(::eventfd(0, EFD_CLOEXEC));
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next_free.get()) + 8;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<gyre::unique_fd> hoard;  // all except the server's reserve
  do hoard.emplace_back(::eventfd(0, EFD_CLOEXEC));
  while (hoard.back());
  ASSERT_GE(hoard.size(), 2u);
  hoard.resize(hoard.size() - 2);
  server->start();
  EXPECT_THROW(server->on_message(&echo), std::logic_error) << "its loop may be calling the other";
  settle(loop);
  std::vector<peer> clients;
  for (gyre::net::socket& each : sockets) {
    static_cast<void>(each.connect(server->local_endpoint()));
    clients.emplace_back(std::move(each));
  }
  const auto turns = loop.metrics().turns;
  turn_until(
      loop, [&] { return server->metrics().refused >= 2 && server->metrics().accept_errors >= 2; });
  EXPECT_LT(loop.metrics().turns - turns, 2000u) << "it must not spin";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_EQ(errors.size(), 1u) << "told once";
  EXPECT_EQ(errors[0], std::errc::too_many_files_open);
  peer late = connect();  // the server recovers
  late.send("x");
  EXPECT_EQ(late.receive(loop, 1), "x");
  clients[0].receive(loop, std::string::npos);
  EXPECT_TRUE(clients[0].ended) << "who was refused is told";
}

TEST_F(TcpServer, ManyConnectAndDisconnect) {
  start();
  constexpr std::size_t rounds = unless_sanitized(100, 5);
  constexpr std::size_t width = 100;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<peer> clients;
    for (std::size_t i = 0; i < width; ++i) clients.push_back(connect());
    for (peer& each : clients) each.send("x");
    for (peer& each : clients) {
      each.receive(loop, 1);
      round % 2 == 0 ? each.close() : each.reset();
    }
    clients.clear();
  }
  wait_for_connections(0);
  EXPECT_EQ(server->metrics().accepted, rounds * width);
  EXPECT_EQ(closes, static_cast<int>(rounds * width));
}

// A bound on the work of a turn must not change the effect of send().
TEST_F(TcpServer, ABroadcastEndsNoneWhoseKernelHasRoomForIt) {
  start({.connections = {.high_water = 8'000, .output_limit = 16'000}});
  std::vector<peer> members;
  for (int i = 0; i < 100; ++i) {
    auto [served, other] = gyre::net::socket_pair();
    members.emplace_back(std::move(other));
    server->adopt(served.release());
  }
  wait_for_connections(members.size());
  const std::string news = long_text(50'000);
  server->broadcast(news);
  for (peer& each : members) EXPECT_TRUE(each.receive(loop, news.size()) == news);
  EXPECT_EQ(closes, 0);
}

// Each message takes a millisecond, and there is always one more.
TEST(TcpServerInVirtualTime, BusyConnectionsDelayTimersAndTasksByABoundedTime) {
  gyre::test::io_in_virtual_time virtual_time({.io_time = 1ms});
  gyre::loop& loop = virtual_time.loop;
  tcp_server server(loop);
  std::vector<gyre::net::socket> members;
  int messages = 0;
  std::vector<int> heard(64);
  server.on_message([&](tcp_connection& c, input& in) {
    in.consume_all();
    ++messages;
    ++heard[c.id() - 1];
    virtual_time.advance(1ms);
    EXPECT_EQ(::send(members[c.id() - 1].fd(), "x", 1, MSG_NOSIGNAL), 1);
  });
  for (std::size_t i = 0; i < heard.size(); ++i) {
    auto [served, other] = gyre::net::socket_pair();
    members.push_back(std::move(other));
    server.adopt(served.release());
  }
  virtual_time.turn_until([&] { return server.metrics().connections == members.size(); });
  virtual_time.settle();
  for (auto& each : members) EXPECT_EQ(::send(each.fd(), "x", 1, MSG_NOSIGNAL), 1);

  int most_between_tasks = 0;
  const std::function<void(int)> post = [&](int before) {
    most_between_tasks = std::max(most_between_tasks, messages - before);
    if (messages < 1000) loop.post([&, now = messages] { post(now); });
  };
  post(0);
  std::chrono::nanoseconds latest{0};
  gyre::steady_time due = loop.now() + 1ms;
  gyre::timer timer(loop, [&] {
    latest = std::max<std::chrono::nanoseconds>(latest, loop.now() - due);
    due = loop.now() + 1ms;
    timer.start_at(due);
  });
  timer.start_at(due);
  virtual_time.turn_until([&] { return messages >= 1000; });
  // A connection may receive four times in its turn.
  EXPECT_LE(most_between_tasks, 8);
  EXPECT_LE(latest, 16ms);
  EXPECT_GE(*std::ranges::min_element(heard), 10) << "some had their turn more often";
}

TEST_F(TcpServer, BroadcastsAndVisitsThatWaitForTheLoopAreLimited) {
  start({.broadcast_limit = 100'000});
  peer client = connect();
  wait_for_connections(1);
  std::string expected;
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(server->broadcast(std::string(100'001, 'x')));
    int accepted = 0;
    for (; server->broadcast(std::string(1'000, 'x')); ++accepted) expected.append(1'000, 'x');
    EXPECT_GE(accepted, 10);
    EXPECT_LE(accepted, 100);
    EXPECT_FALSE(server->for_each([](tcp_connection&) { FAIL() << "was refused"; }));
    EXPECT_EQ(client.receive(loop, expected.size()), expected);
    settle(loop);
    int visits = 0;
    for (accepted = 0; server->for_each([&](tcp_connection&) { ++visits; });) ++accepted;
    EXPECT_LE(accepted, 100);
    settle(loop);
    EXPECT_EQ(visits, accepted);
  }
}

TEST_F(TcpServer, OneAddressHasItsConnectionsAndNoMore) {
  start({.connections_per_address = 2});
  std::vector<peer> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(connect());
  turn_until(loop, [&] { return server->metrics().accepted == 4; });
  EXPECT_EQ(server->metrics().connections, 2u);
  EXPECT_EQ(server->metrics().limited, 2u);
  EXPECT_EQ(server->metrics().refused, 2u);
  for (peer& each : clients) each.close();
  wait_for_connections(0);
  peer next = connect();
  next.send("hello");
  EXPECT_EQ(next.receive(loop, 5), "hello");
}

TEST_F(TcpServer, OneAddressDoesNotTakeAllDescriptors) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 20;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  server.emplace(loop);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  server->listen(any_port());
  server->start();
  std::vector<peer> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(connect());
  turn_until(loop, [&] { return server->metrics().accepted == 12; });
  EXPECT_EQ(server->metrics().connections, 10u);
  EXPECT_EQ(server->metrics().limited, 2u);
}

TEST(TcpServerInVirtualTime, OneAddressConnectsAtItsRateAndNoFaster) {
  gyre::test::io_in_virtual_time virtual_time;
  tcp_server server(virtual_time.loop, {.accepts_per_address = 3, .accept_interval = 3s});
  server.listen(any_port());
  server.start();
  std::uint64_t accepted = 0;
  const auto connect = [&](int count) {
    const std::uint64_t limited = server.metrics().limited;
    for (int i = 0; i < count; ++i) {
      peer each(server.local_endpoint());
      ++accepted;
      virtual_time.turn_until([&] { return server.metrics().accepted == accepted; });
    }
    return server.metrics().limited - limited;
  };
  EXPECT_EQ(connect(5), 2u);
  virtual_time.advance(1s);
  EXPECT_EQ(connect(2), 1u) << "one more each second";
  virtual_time.advance(1h);
  EXPECT_EQ(connect(4), 1u);
}

TEST_F(TcpServer, AGreedyPeerDoesNotTakeTheMemoryOfTheOthers) {
  start({.connections = {.output_limit = 16'000'000}, .memory_limit = 8'000'000});
  std::vector<tcp_connection*> served;
  std::vector<gyre::net::socket> members;
  for (int i = 0; i < 4; ++i) {
    auto [one, other] = gyre::net::socket_pair();
    one.set_send_buffer(100'000);
    members.push_back(std::move(other));
    server->adopt(one.release());
  }
  wait_for_connections(4);
  server->for_each([&](tcp_connection& c) { served.push_back(&c); });
  turn_until(loop, [&] { return served.size() == 4; });
  const std::string much(3'000'000, 'x');
  const std::string little(600'000, 'x');
  EXPECT_TRUE(served[0]->send(much)) << "there is room";
  EXPECT_TRUE(served[1]->send(little));
  EXPECT_FALSE(served[2]->send(much)) << "beyond its share of what is left";
  EXPECT_TRUE(served[3]->send(little));
  EXPECT_FALSE(served[0]->send(much));
  EXPECT_TRUE(served[1]->can_send());
  turn_until(loop, [&] { return closes == 2; });
  EXPECT_TRUE(served[3]->send(much)) << "the memory was given back";
}

TEST_F(TcpServer, BroadcastsToAll) {
  start();
  std::vector<peer> clients;
  for (int i = 0; i < 100; ++i) clients.push_back(connect());
  wait_for_connections(100);
  server->broadcast("news");
  for (peer& each : clients) EXPECT_EQ(each.receive(loop, 4), "news");
  int visited = 0;
  server->for_each([&](tcp_connection& c) {
    if (++visited == 50) server.reset();
    c.close();
  });
  turn_until(loop, [&] { return visited > 0; });
  settle(loop);
  EXPECT_EQ(visited, 50) << "none behind the end of the server";
}

TEST_F(TcpServer, GoesOnWithTheOthersWhenAFunctionThrows) {
  int thrown = 0;
  gyre::loop told({.on_exception = [&](std::exception_ptr) { ++thrown; }});
  tcp_server visited_one(told);
  visited_one.listen(any_port());
  visited_one.start();
  std::vector<peer> clients;
  for (int i = 0; i < 5; ++i) clients.emplace_back(visited_one.local_endpoint());
  turn_until(told, [&] { return visited_one.metrics().connections == 5; });
  int visited = 0;
  visited_one.for_each([&](tcp_connection&) {
    if (++visited % 2 == 0) throw std::runtime_error("visit");
  });
  turn_until(told, [&] { return visited > 0; });
  settle(told);
  EXPECT_EQ(visited, 5);
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(visited_one.metrics().connections, 3u) << "its own connection is lost to a function";
}

TEST_F(TcpServer, GivesWhatItAdoptsItsOptions) {
  for (const bool wanted : {false, true}) {
    server.emplace(loop,
                   tcp_server_options{.connections = {.no_delay = wanted, .keep_alive = wanted}});
    int told = 0;
    server->on_connection([&](tcp_connection& c) {
      const gyre::net::socket_ref socket(c.fd());
      EXPECT_EQ(socket.no_delay(), wanted);
      EXPECT_EQ(socket.keep_alive().on, wanted);
      ++told;
    });
    server->listen(any_port());
    server->start();
    peer accepted = connect();
    turn_until(loop, [&] { return told == 1; });
    gyre::net::socket listening =
        gyre::net::socket::open(gyre::net::address_family::ipv4, gyre::net::socket_type::stream);
    listening.bind(any_port());
    listening.listen(1);
    peer client(listening.local_endpoint());
    server->adopt(gyre::unique_fd(::accept(listening.fd(), nullptr, nullptr)));
    turn_until(loop, [&] { return told == 2; });
  }
}

TEST_F(TcpServer, SaysThatItDoesNotListenYet) {
  server.emplace(loop);
  try {
    static_cast<void>(server->local_endpoint());
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("listen() was not called"));
  }
}

TEST_F(TcpServer, StopsGracefully) {
  start();
  const std::string text = long_text(5'000'000);
  peer client = connect();
  wait_for_connections(1);
  server->for_each([&](tcp_connection& c) { c.send(text); });
  int done = 0;
  server->stop(10s, [&] { ++done; });
  server->stop(20s, [&] { ++done; });
  EXPECT_TRUE(client.receive_end(loop));
  EXPECT_EQ(client.text, text);
  EXPECT_EQ(done, 0);
  client.close();
  turn_until(loop, [&] { return done == 2; });
  EXPECT_EQ(closes, 1);
  server->stop(1s, [&] { ++done; });
  turn_until(loop, [&] { return done == 3; });
  server->listen(any_port());  // has no effect
}

TEST_F(TcpServer, StopAbortsAtItsDeadline) {
  start({.connections = {.output_limit = 10'000'000}});
  peer client = connect();
  wait_for_connections(1);
  server->for_each([](tcp_connection& c) { c.send(long_text(8'000'000)); });
  bool done = false;
  server->stop(std::chrono::hours(1));
  settle(loop);
  server->stop(10ms, [&] { done = true; });
  turn_until(loop, [&] { return done; });
  EXPECT_EQ(closes, 1);
}

TEST_F(TcpServer, StopAbortsAtAPointInTime) {
  for (const auto left : {20ms, -20ms}) {
    start({.connections = {.output_limit = 10'000'000}});
    closes = 0;
    peer client = connect();
    wait_for_connections(1);
    server->for_each([](tcp_connection& c) { c.send(long_text(8'000'000)); });
    bool done = false;
    server->stop(gyre::steady_time::max());
    settle(loop);
    EXPECT_EQ(closes, 0);
    const gyre::steady_time deadline = loop.now() + left;
    server->stop(deadline, [&] { done = true; });
    turn_until(loop, [&] { return done; });
    EXPECT_EQ(closes, 1);
    EXPECT_GE(loop.now(), deadline);
  }
}

// The example in runtime.hpp.
TEST(TcpServerOfARuntime, IsStoppedByItsEnd) {
  gyre::runtime runtime({.loops = 1});
  runtime.run([](gyre::runtime& rt) -> gyre::task<> {
    int closes = 0;
    tcp_server server(rt.loops());
    server.on_connection([&](tcp_connection&) { rt.shutdown(); });
    server.on_close([&](tcp_connection&, std::error_code) { ++closes; });
    server.listen(any_port());
    server.start();
    auto hook = rt.on_shutdown(gyre::shutdown_phase::drain, [&](gyre::shutdown_step step) {
      const gyre::steady_time deadline = step.deadline();
      server.stop(deadline, [step = std::move(step)] {});
    });
    tcp_server other(rt.loops());
    auto by_coroutine =
        rt.on_shutdown(gyre::shutdown_phase::drain, [&] { return other.stop_async(); });
    const peer client(server.local_endpoint());
    client.end_sending();
    auto drained = rt.drained();
    co_await std::move(drained);
    EXPECT_EQ(closes, 1);
  });
}

TEST_F(TcpServer, MayBeStoppedBeforeItStarts) {
  server.emplace(loop);
  server->listen(any_port());
  const endpoint place = server->local_endpoint();
  bool done = false;
  server->stop(1s, [&] { done = true; });
  server->start();
  turn_until(loop, [&] { return done; });
  try {
    const gyre::net::socket late =
        gyre::net::socket::open(place.family(), gyre::net::socket_type::stream);
    static_cast<void>(late.connect(place));
    pollfd waiting{late.fd(), POLLOUT, 0};
    EXPECT_EQ(::poll(&waiting, 1, 10'000), 1);
    EXPECT_EQ(late.take_error(), std::errc::connection_refused);
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::connection_refused);
  }
}

TEST_F(TcpServer, AServerThatIsStoppedListensNoMore) {
  server.emplace(loop);
  server->stop(1s);
  server->listen(any_port());  // before the loop has stopped it
  EXPECT_THROW(static_cast<void>(server->local_endpoint()), std::out_of_range);
  server->start();
  settle(loop);
}

TEST_F(TcpServer, TellsEveryoneWhoStoppedItEvenIfOneThrows) {
  int thrown = 0;
  gyre::loop told({.on_exception = [&](std::exception_ptr) { ++thrown; }});
  tcp_server stopped(told);
  bool done = false;
  stopped.stop(1s, [] { throw std::runtime_error("done"); });
  stopped.stop(1s, [&] { done = true; });
  turn_until(told, [&] { return done; });
  EXPECT_EQ(thrown, 1);
}

TEST_F(TcpServer, TellsNobodyThatItHasStoppedWhenItIsGone) {
  start();
  bool done = false;
  server->stop(1s, [&] { server.reset(); });
  server->stop(1s, [&] { done = true; });
  turn_until(loop, [&] { return !server; });
  settle(loop);
  EXPECT_FALSE(done);
}

TEST_F(TcpServer, MayBeDestroyedWhenItHasStopped) {
  start();
  peer client = connect();
  client.send("x");
  client.receive(loop, 1);
  server->stop(1ms, [&] { server.reset(); });
  turn_until(loop, [&] { return !server; });
  settle(loop);
}

TEST_F(TcpServer, MayBeDestroyedAtAnyTime) {
  server.emplace(loop);  // never listened
  server.emplace(loop);
  server->listen(any_port());  // never started
  start();                     // never ran
  start();
  std::vector<peer> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(connect());
  wait_for_connections(10);
  const std::string much = long_text(4'000'000);
  server->for_each([&](tcp_connection& c) { c.send(much); });
  loop.poll();
  server.reset();  // the loop is then destroyed with the server's remaining tasks
  EXPECT_EQ(closes, 0);
}

TEST_F(TcpServer, MayBeStoppedByACoroutine) {
  start();
  peer client = connect();
  wait_for_connections(1);
  bool stopped = false;
  gyre::spawn(loop, [](tcp_server& stopped_one, bool& done) -> gyre::task<> {
    auto stopping = stopped_one.stop_async(1ms);
    co_await std::move(stopping);
    done = true;
  }(*server, stopped));
  turn_until(loop, [&] { return stopped; });
  EXPECT_EQ(closes, 1);
}

// The copy's destructor must not take the parent's sockets out of epoll.
TEST_F(TcpServer, AForkedChildMayDestroyItsCopy) {
  start();
  settle(loop);
  const pid_t child = ::fork();
  if (child == 0) {
    loop.after_fork_in_child();
    server.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  peer client = connect();
  client.send("x");
  EXPECT_EQ(client.receive(loop, 1), "x");
}

TEST_F(TcpServer, TakesTheFileOfAServerThatIsGone) {
  const std::string file = testing::TempDir() + "/gyre_tcp_server_socket";
  ::unlink(file.c_str());
  start({}, endpoint::unix_path(file));
  EXPECT_THROW(server->listen(endpoint::unix_path(file)), std::system_error) << "it is there";
  server.reset();
  settle(loop);
  EXPECT_EQ(::access(file.c_str(), F_OK), 0);
  start({}, endpoint::unix_path(file));
  peer client = connect();
  client.send("x");
  EXPECT_EQ(client.receive(loop, 1), "x");
  server.reset();
  ::unlink(file.c_str());
  std::ofstream(file) << "no socket";
  EXPECT_THROW(start({}, endpoint::unix_path(file)), std::system_error);
  EXPECT_EQ(::access(file.c_str(), F_OK), 0) << "not its own to remove";
  ::unlink(file.c_str());
}

// --- Several loops ---

class TcpServerOnLoops : public testing::TestWithParam<accept_strategy> {
 protected:
  gyre::loop loop;  // the peers'
};

TEST_P(TcpServerOnLoops, SharesConnectionsAmongThem) {
  gyre::loop_pool pool(2);
  tcp_server server(pool, {.strategy = GetParam()});
  std::atomic<int> on_loop[2] = {};
  server.on_connection([&](tcp_connection& c) { ++on_loop[&c.loop() == &pool[1] ? 1 : 0]; });
  server.on_message(&echo);
  server.listen(any_port());
  server.start();
  std::vector<peer> clients;
  for (int i = 0; i < 40; ++i) clients.emplace_back(server.local_endpoint());
  for (peer& each : clients) each.send("x");
  for (peer& each : clients) EXPECT_EQ(each.receive(loop, 1), "x");
  EXPECT_EQ(on_loop[0] + on_loop[1], 40);
  switch (GetParam()) {
    case accept_strategy::round_robin:
    case accept_strategy::least_connections: EXPECT_EQ(on_loop[0], 20); break;
    case accept_strategy::hash_of_peer: EXPECT_TRUE(on_loop[0] == 0 || on_loop[1] == 0); break;
    case accept_strategy::every_loop:
      EXPECT_GT(on_loop[0], 0);
      EXPECT_GT(on_loop[1], 0);
      break;
  }
  std::promise<void> stopped;
  server.stop(1ms, [&] { stopped.set_value(); });
  ASSERT_EQ(stopped.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(server.metrics().connections, 0u);
}

TEST_P(TcpServerOnLoops, SharesConnectionsWithinTheMachineAmongThem) {
  gyre::loop_pool pool(2);
  tcp_server server(pool, {.strategy = GetParam()});
  std::atomic<int> on_loop[2] = {};
  server.on_connection([&](tcp_connection& c) { ++on_loop[&c.loop() == &pool[1] ? 1 : 0]; });
  server.on_message(&echo);
  server.listen(
      endpoint::unix_abstract("gyre-tcp-server-on-loops-test-" + std::to_string(::getpid())));
  server.start();
  std::vector<peer> clients;
  for (int i = 0; i < 10; ++i) clients.emplace_back(server.local_endpoint());
  for (peer& each : clients) each.send("x");
  for (peer& each : clients) EXPECT_EQ(each.receive(loop, 1), "x");
  EXPECT_EQ(on_loop[0], 5);
  EXPECT_EQ(on_loop[1], 5);
}

TEST_P(TcpServerOnLoops, KeepsItsLimit) {
  gyre::loop_pool pool(2);
  tcp_server server(pool, {.strategy = GetParam(), .max_connections = 5});
  server.on_message(&echo);
  server.listen(any_port());
  server.start();
  int served = 0;
  for (int round = 0; round < unless_sanitized(20, 4); ++round) {
    std::vector<peer> clients;
    for (int i = 0; i < 8; ++i) clients.emplace_back(server.local_endpoint());
    for (peer& each : clients) each.send("x");
    // The clients are served in any order.
    turn_until(loop, [&] {
      EXPECT_LE(server.metrics().connections, 5u);
      for (peer& each : clients) {
        each.receive();
        if (each.text.empty() && !each.ended) continue;
        served += each.text == "x" ? 1 : 0;
        each.close();
        each.ended = true;
      }
      return std::ranges::all_of(clients, &peer::ended);
    });
  }
  EXPECT_GT(served, 0);
}

// Mainly for ThreadSanitizer: covers everything that crosses threads.
TEST_P(TcpServerOnLoops, MayBeDestroyedByAnyThreadWhileItIsBusy) {
  for (int round = 0; round < unless_sanitized(10, 2); ++round) {
    gyre::loop_pool pool(2);
    auto guarded = std::make_unique<int>(0);
    std::atomic<bool> over = false;
    auto server = std::make_unique<tcp_server>(
        pool, tcp_server_options{.strategy = GetParam(), .connections = {.idle_timeout = 1ms}});
    std::atomic<int> messages = 0;
    std::mutex mutex;
    std::vector<tcp_connection_ref> refs;
    server->on_connection([&](tcp_connection& c) {
      const std::lock_guard lock(mutex);
      refs.push_back(c.ref());
    });
    server->on_message([&](tcp_connection& c, input& in) {
      EXPECT_FALSE(over) << "a handler behind the destructor";
      ++messages;
      echo(c, in);
    });
    server->on_close([&](tcp_connection&, std::error_code) { EXPECT_FALSE(over); });
    server->listen(any_port());
    server->start();
    std::vector<peer> clients;
    for (int i = 0; i < 8; ++i) clients.emplace_back(server->local_endpoint());
    for (peer& each : clients) each.send("x");
    std::jthread sender([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const std::lock_guard lock(mutex);
        for (const tcp_connection_ref& each : refs) each.send("from another thread");
      }
    });
    // Some may have been idle for too long before their message was there.
    turn_until(loop, [&] {
      if (messages > 4) return true;
      clients.emplace_back(server->local_endpoint()).send("x");
      return false;
    });
    server->broadcast("everybody");
    server.reset();
    over = true;
    sender.request_stop();
    sender.join();
    const std::lock_guard lock(mutex);
    refs.clear();
  }
}

TEST_P(TcpServerOnLoops, MayBeDestroyedByAHandler) {
  gyre::loop_pool pool(2);
  auto server = std::make_unique<tcp_server>(pool, tcp_server_options{.strategy = GetParam()});
  std::atomic<bool> destroyed = false;
  std::once_flag once;
  server->on_message([&](tcp_connection& c, input& in) {
    // A handler on the other loop must not wait for the handler that destroys the server.
    std::call_once(once, [&] {
      server.reset();
      destroyed = true;
    });
    in.consume_all();
    c.send("nobody gets that");
  });
  server->listen(any_port());
  const endpoint place = server->local_endpoint();
  server->start();
  peer client(place);
  client.send("x");
  client.receive(loop, std::string::npos);
  turn_until(loop, [&] { return destroyed.load(); });
}

INSTANTIATE_TEST_SUITE_P(, TcpServerOnLoops,
                         testing::Values(accept_strategy::round_robin,
                                         accept_strategy::hash_of_peer,
                                         accept_strategy::least_connections,
                                         accept_strategy::every_loop));

// Two loops that the test turns.
class TcpServerOnTwoLoops : public testing::Test {
 protected:
  void start(tcp_server_options how) {
    server.emplace(std::vector<gyre::event_loop*>{&first, &second}, std::move(how));
    server->on_connection([this](tcp_connection& c) { on.push_back(&c.loop()); });
    server->on_message(&echo);
    server->listen(any_port());
    server->start();
    idle();
  }
  peer connect() { return peer(server->local_endpoint()); }
  template <class Done>
  void turn_both_until(Done done) {
    turn_until(first, [&] {
      settle(second);
      return done();
    });
  }
  void idle() {
    for (int i = 0; i < 10; ++i) {
      first.run_for(200us);
      second.run_for(200us);
    }
  }

  gyre::loop first, second;
  std::optional<tcp_server> server;
  std::vector<gyre::event_loop*> on;  // the connections' loops, in order of arrival
};

TEST_F(TcpServerOnTwoLoops, NeitherTakesWhatIsAboveTheLimit) {
  start({.strategy = accept_strategy::every_loop, .max_connections = 1});
  std::vector<peer> clients;
  clients.push_back(connect());
  turn_both_until([&] { return on.size() == 1; });
  idle();
  for (int i = 0; i < 20; ++i) clients.push_back(connect());
  idle();
  EXPECT_EQ(server->metrics().accepted, 1u);
  EXPECT_EQ(server->metrics().refused, 0u) << "they wait";
  clients[0].close();
  turn_both_until([&] { return on.size() == 2; });
}

TEST_F(TcpServerOnTwoLoops, TheOneWithTheFewestConnectionsGetsTheNext) {
  start({.strategy = accept_strategy::least_connections});
  std::vector<peer> clients;
  const auto connect_some = [&](std::size_t count) {
    on.clear();
    for (std::size_t i = 0; i < count; ++i) {
      clients.push_back(connect());
      turn_both_until([&] { return on.size() == i + 1; });
    }
  };
  connect_some(8);
  ASSERT_EQ(std::ranges::count(on, &second), 4);
  for (std::size_t i = 0; i < 8; ++i) {
    if (on[i] == &second) clients[i].close();
  }
  turn_both_until([&] { return server->metrics().connections == 4; });
  connect_some(4);
  EXPECT_THAT(on, testing::Each(&second));
}

// A connection is in transit to the second loop when the server, and then the first loop, are
// destroyed.
TEST(TcpServerOnLoopsThatGo, NeedsNoneOfThemWhenItIsGone) {
  auto first = std::make_unique<gyre::loop>();
  auto second = std::make_unique<gyre::loop>();
  auto server =
      std::make_unique<tcp_server>(std::vector<gyre::event_loop*>{first.get(), second.get()},
                                   tcp_server_options{.max_connections = 2});
  server->listen(any_port());
  server->start();
  peer one(server->local_endpoint());
  peer other(server->local_endpoint());
  turn_until(*first, [&] { return server->metrics().connections == 2; });
  server.reset();
  first.reset();
  settle(*second);
}

TEST(TcpServerOnAThread, IsMadeAndDestroyedByItsOwner) {
  gyre::loop loop;
  gyre::loop_thread thread;
  tcp_server server(thread);
  server.on_message(&echo);
  server.listen(any_port());
  server.start();
  peer client(server.local_endpoint());
  client.send("hello");
  EXPECT_EQ(client.receive(loop, 5), "hello");
}

TEST(TcpServerOnAThread, MayDieAfterItsLoopHasStopped) {
  gyre::loop loop;
  gyre::loop_thread thread;
  tcp_server server(thread);
  server.on_message(&echo);
  server.listen(any_port());
  server.start();
  peer client(server.local_endpoint());
  client.send("hello");
  EXPECT_EQ(client.receive(loop, 5), "hello");
  thread.stop();
  thread.join();
}

// --- No memory where nothing may be thrown ---

class TcpServerWithoutMemory : public testing::Test {
 protected:
  using loop_type = gyre::basic_loop<gyre::test::inbox_that_may_be_full>;

  void start(tcp_server_options how = {}) {
    server.emplace(loop, std::move(how));
    server->on_message(&echo);
  }
  void listen() {
    server->listen(any_port());
    server->start();
  }
  void TearDown() override { gyre::test::inbox_full = false; }

  loop_type loop;
  std::optional<tcp_server> server;
};

TEST_F(TcpServerWithoutMemory, MayBeDestroyed) {
  for (const bool by_a_handler : {false, true}) {
    const auto destroy = [&] {
      gyre::test::inbox_full = true;
      server.reset();
    };
    start();
    server->on_message([&](tcp_connection& c, input& in) {
      echo(c, in);  // so that the loop still has to call on_write_complete
      if (by_a_handler) destroy();
    });
    server->on_write_complete([](tcp_connection&) {});
    listen();
    peer client(server->local_endpoint());
    turn_until(loop, [&] { return server->metrics().connections == 1; });
    if (by_a_handler) {
      client.send("end");
      turn_until(loop, [&] { return !server; });
    } else {
      destroy();
    }
    client.receive(loop, std::string::npos);
    settle(loop);
    gyre::test::inbox_full = false;
  }
}

TEST_F(TcpServerWithoutMemory, AcceptsAgainWhenThereIsAPlace) {
  start({.max_connections = 1});
  server->on_close([](tcp_connection&, std::error_code) { gyre::test::inbox_full = true; });
  listen();
  peer client(server->local_endpoint());
  client.send("x");
  client.receive(loop, 1);
  peer next(server->local_endpoint());
  next.send("y");
  client.close();
  EXPECT_EQ(next.receive(loop, 1), "y");
}

TEST_F(TcpServerWithoutMemory, TellsThatItHasStopped) {
  start();
  server->on_close([](tcp_connection&, std::error_code) { gyre::test::inbox_full = true; });
  listen();
  peer client(server->local_endpoint());
  turn_until(loop, [&] { return server->metrics().connections == 1; });
  int told = 0;
  server->stop(1ms, [&] { ++told; });
  server->stop(1ms, [&] { ++told; });
  turn_until(loop, [&] { return told == 2; });
}

}  // namespace
}  // namespace tcp_server_test
