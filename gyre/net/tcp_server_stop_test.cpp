// SPDX-License-Identifier: Apache-2.0
// Tests of a graceful stop: what has arrived is served, on connections of every age.
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/callback_test_support.hpp>
#include <gyre/net/passed_sockets.hpp>
#include <gyre/net/tcp_server.hpp>
#include <tests/support/io_in_virtual_time.hpp>
#include <tests/support/lockstep_loop.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tcp_server_stop_test {
namespace {

using namespace gyre::net::test;
using gyre::io::input;
using gyre::net::tcp_connection;
using gyre::net::tcp_server;
using gyre::net::tcp_server_options;

class TcpServerStop : public testing::Test {
 protected:
  tcp_server& echo(tcp_server_options options = {}) {
    server.emplace(virtual_time.loop, std::move(options));
    server->on_message([](tcp_connection& from, input& in) {
      from.send(in.bytes());
      in.consume_all();
    });
    return *server;
  }
  void start_echo() { start(echo()); }
  void start(tcp_server& made) {
    made.listen(any_port());
    made.start();
    virtual_time.settle();
  }
  peer connect() { return peer(server->local_endpoint()); }
  peer connect_and_settle() {
    const std::size_t before = server->metrics().connections;
    peer connected = connect();
    virtual_time.turn_until([&] { return server->metrics().connections == before + 1; });
    virtual_time.settle();
    return connected;
  }
  void stop(std::chrono::nanoseconds timeout = 1h) {
    server->stop(timeout, [this] { done = true; });
  }
  const std::string& received_end(peer& from) {
    virtual_time.turn_until([&] {
      from.receive();
      return from.ended;
    });
    EXPECT_EQ(from.error, 0);
    from.close();
    return from.text;
  }
  void await_end() {
    virtual_time.turn_until([&] { return done; });
    EXPECT_EQ(server->metrics().connections, 0u);
  }

  gyre::test::io_in_virtual_time virtual_time;
  std::optional<tcp_server> server;
  bool done = false;
};

TEST_F(TcpServerStop, ServesBytesThatAreInTheSocketsBuffer) {
  start_echo();
  peer first = connect_and_settle();
  peer later = connect_and_settle();
  later.send("a");
  virtual_time.turn_until([&] {
    later.receive();
    return later.text == "a";
  });
  first.send("x");
  later.send("b");
  stop();
  EXPECT_EQ(received_end(first), "x");
  EXPECT_EQ(received_end(later), "ab");
  await_end();
}

TEST_F(TcpServerStop, ServesConnectionsThatWaitInTheQueueOfItsOwnSocket) {
  start_echo();
  std::vector<peer> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(connect());
    clients.back().send("x");
  }
  stop();
  for (peer& each : clients) EXPECT_EQ(received_end(each), "x");
  await_end();
  EXPECT_EQ(server->metrics().accepted, 100u);
  EXPECT_EQ(server->metrics().refused, 0u);
}

TEST_F(TcpServerStop, GivesNewConnectionsTimeForTheirFirstBytes) {
  start_echo();
  peer client = connect_and_settle();
  stop();
  virtual_time.settle();
  client.send("x");
  EXPECT_EQ(received_end(client), "x");
  await_end();
}

TEST_F(TcpServerStop, GivesConnectionsTimeForTheRestOfAMessage) {
  echo().on_message([](tcp_connection& from, input& in) {
    if (in.size() < 2) return;
    from.send(in.bytes());
    in.consume_all();
  });
  start(*server);
  peer client = connect_and_settle();
  client.send("x");
  virtual_time.turn_until([&] { return server->metrics().traffic.bytes_received == 1; });
  stop();
  virtual_time.settle();
  client.send("y");
  EXPECT_EQ(received_end(client), "xy");
  await_end();
}

TEST_F(TcpServerStop, ThatTimeIsLimited) {
  start(echo({.stop_grace = 3s}));
  peer silent = connect_and_settle();
  peer busy = connect_and_settle();
  busy.send("x");
  stop();
  virtual_time.settle();
  virtual_time.advance(2s);
  virtual_time.settle();
  silent.receive();
  EXPECT_FALSE(silent.ended);
  virtual_time.advance(2s);
  EXPECT_EQ(received_end(silent), "");
  EXPECT_EQ(received_end(busy), "x");
  await_end();
}

// The next byte is there before the last one was dealt with.
TEST_F(TcpServerStop, APeerThatNeverEndsSendingEndsWithThatTime) {
  int messages = 0;
  std::optional<peer> flood;
  echo().on_message([&](tcp_connection&, input& in) {
    in.consume_all();
    ++messages;
    flood->send("x");
  });
  start(*server);
  flood.emplace(connect_and_settle());
  flood->send("x");
  stop();
  virtual_time.turn_until([&] { return messages >= 20; });
  EXPECT_EQ(server->metrics().connections, 1u);
  virtual_time.advance(2s);
  virtual_time.turn_until([&] {
    flood->receive();
    return flood->ended;
  });
  flood->close();
  await_end();
}

TEST_F(TcpServerStop, EndsAtItsDeadlineWhateverIsLeft) {
  start_echo();
  const peer silent = connect_and_settle();
  stop(500ms);
  virtual_time.settle();
  EXPECT_FALSE(done);
  virtual_time.advance(600ms);
  await_end();
}

TEST_F(TcpServerStop, WaitsForAConnectionThatHasReadingPaused) {
  tcp_connection* busy = nullptr;
  echo().on_message([&](tcp_connection& from, input& in) {
    from.send(in.take(1));
    from.pause_reading();
    busy = &from;
  });
  start(*server);
  peer client = connect_and_settle();
  client.send("xy");
  virtual_time.turn_until([&] { return busy != nullptr; });
  stop();
  virtual_time.settle();
  virtual_time.advance(1min);
  virtual_time.settle();
  busy->resume_reading();
  virtual_time.settle();
  busy->resume_reading();
  EXPECT_EQ(received_end(client), "xy");
  await_end();
}

TEST_F(TcpServerStop, ACallbackMayKeepAConnectionUntilItsAnswerIsSent) {
  tcp_connection* asked = nullptr;
  int calls = 0;
  echo()
      .on_message([&](tcp_connection& from, input& in) {
        in.consume_all();
        asked = &from;
      })
      .on_stopping([&](tcp_connection& stopping) {
        ++calls;
        if (&stopping != asked) stopping.close();
      });
  start(*server);
  peer idle = connect_and_settle();
  idle.send("a");
  virtual_time.turn_until([&] { return asked != nullptr; });
  peer client = connect_and_settle();
  client.send("b");
  virtual_time.turn_until([&] { return asked->id() == 2; });
  stop();
  EXPECT_EQ(received_end(idle), "");
  virtual_time.advance(1min);
  virtual_time.settle();
  EXPECT_EQ(calls, 2);
  asked->send("late");
  asked->close();
  EXPECT_EQ(received_end(client), "late");
  await_end();
}

TEST_F(TcpServerStop, LeavesTheQueueOfASharedSocketToItsSuccessor) {
  const gyre::net::socket kept = gyre::net::listening_socket(any_port());
  const gyre::net::endpoint at = kept.local_endpoint();
  echo().listen(copy_of(kept));
  server->start();
  server->pause_accepting();
  virtual_time.settle();
  peer client(at);
  client.send("x");
  stop();
  await_end();
  EXPECT_EQ(server->metrics().accepted, 0u);
  echo().listen(copy_of(kept));
  server->start();
  done = false;
  virtual_time.turn_until([&] { return server->metrics().accepted == 1; });
  stop();
  EXPECT_EQ(received_end(client), "x");
  await_end();
}

// The loops are turned one after the other, so that each order occurs.
TEST(TcpServerStopOnTwoLoops, ServesConnectionsThatAreOnTheirWayToAnotherLoop) {
  for (const bool other_first : {false, true}) {
    gyre::loop accepting;
    gyre::loop other;
    tcp_server server(std::vector<gyre::event_loop*>{&accepting, &other}, {.stop_grace = 1h});
    server.on_message([](tcp_connection& from, input& in) {
      from.send(in.bytes());
      in.consume_all();
    });
    server.listen(any_port());
    server.start();
    settle(accepting);
    std::vector<peer> clients;
    for (int i = 0; i < 2; ++i) {
      clients.emplace_back(server.local_endpoint());
      clients.back().send("x");
    }
    if (!other_first) turn_until(accepting, [&] { return server.metrics().accepted == 2; });
    bool done = false;
    server.stop(1h, [&] { done = true; });
    if (other_first) settle(other);
    settle(accepting);
    EXPECT_FALSE(done);
    const auto all_ended = [&] {
      bool ended = true;
      for (peer& each : clients) {
        each.receive();
        if (each.ended) each.close();
        ended = ended && each.ended;
      }
      settle(other);
      return ended;
    };
    turn_until(accepting, all_ended);
    for (const peer& each : clients) EXPECT_EQ(each.text, "x");
    turn_until(accepting, [&] {
      settle(other);
      return done;
    });
    EXPECT_EQ(server.metrics().refused, 0u);
  }
}

// --- Several loops ---

// After the callback, another thread may destroy the server and the loops.
TEST(TcpServerStopOnLoops, PostsNothingOnceTheCallbackMayHaveRun) {
  gyre::loop second;
  gyre::test::lockstep_loop first;
  tcp_server server(std::vector<gyre::event_loop*>{&first.loop, &second});
  std::promise<void> stopped;
  server.stop(0s, [&] { stopped.set_value(); });
  while (second.poll()) {
  }
  stopped.get_future().get();
  first.await_sleep();
  ASSERT_EQ(second.metrics().tasks_pending, 0u);
  std::promise<std::size_t> pending_at_callback;
  server.stop(0s, [&] { pending_at_callback.set_value(second.metrics().tasks_pending); });
  EXPECT_EQ(second.metrics().tasks_pending, pending_at_callback.get_future().get());
}

// The callback runs on the loop's thread before stop() has returned.
TEST(TcpServerStopOnLoops, TheCallbackMayDestroyTheServerDuringTheCall) {
  for (const bool is_stopped : {false, true}) {
    gyre::test::lockstep_loop lockstep;
    auto server = std::make_unique<tcp_server>(lockstep.loop);
    if (is_stopped) gyre::sync_wait(server->stop_async());
    lockstep.await_sleep();
    std::promise<void> destroyed;
    server->stop(0s, [&] {
      server.reset();
      destroyed.set_value();
    });
    destroyed.get_future().get();
  }
}

}  // namespace
}  // namespace tcp_server_stop_test
