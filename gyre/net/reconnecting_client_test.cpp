// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/reconnecting_client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/framed.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_server.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/runtime/sharded.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/droppable.hpp>
#include <tests/support/idle_time_poller.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace reconnecting_client_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::steady_time;
using gyre::task;
using gyre::io::errc;
using gyre::net::client_state;
using gyre::net::delimited;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::reconnecting_client;
using gyre::net::tcp_listener;
using gyre::net::tcp_stream;
using gyre::net::unix_stream;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using lines = gyre::net::framed<delimited, tcp_stream>;

const endpoint any_port(ip_address::loopback_v4(), 0);

task<std::string> ask(lines& peer, std::string question) {
  co_await peer.send(question);
  const auto answer = co_await peer.next();
  if (!answer) throw std::system_error(std::make_error_code(std::errc::connection_reset));
  co_return std::string(*answer);
}

task<lines> log_in(tcp_stream connected) {
  lines peer(std::move(connected), delimited("\n"));
  const std::string welcome = co_await ask(peer, "hello");
  if (welcome != "hello") throw std::logic_error("the password is wrong");
  co_return peer;
}

/// As many answers to a connection as the script says, which come back as they are; the connection
/// ends with the request after them. An empty connection is closed at once.
task<> answer(tcp_listener& listener, std::vector<int> script) {
  for (const int answers : script) {
    lines peer(co_await listener.accept(), delimited("\n"));
    for (int i = 0; i < answers; ++i) {
      const auto request = co_await peer.next();
      if (!request) break;
      co_await peer.send(*request);
    }
    if (answers > 0) static_cast<void>(co_await peer.next());
  }
}

class ReconnectingClient : public testing::Test {
 protected:
  template <class Work>
  auto run(Work work) {
    return gyre::sync_wait(loop_, std::move(work));
  }
  // While a server with that script runs.
  void run_with_server(std::vector<int> script, task<> work) {
    auto serve = [](tcp_listener& listener, std::vector<int> answers) -> task<> {
      co_await answer(listener, std::move(answers));
      co_await gyre::sleep_for(24h);
    };
    run(gyre::when_any(std::move(work), serve(listener_, std::move(script))));
  }

  gyre::loop loop_{{}, std::make_unique<gyre::test::idle_time_poller>()};
  tcp_listener listener_{loop_, any_port};
  const std::string server_ = listener_.local_endpoint().to_string();
};

TEST_F(ReconnectingClient, KeepsOneConnectionForAllCalls) {
  reconnecting_client client(loop_, server_, log_in);
  static_assert(std::same_as<decltype(client), reconnecting_client<lines>>);
  EXPECT_EQ(client.state(), client_state::disconnected);
  const auto use = [&]() -> task<> {
    for (const std::string_view word : {"one", "two", "three"}) {
      const auto echo = [word](lines& peer) { return ask(peer, std::string(word)); };
      EXPECT_EQ(co_await client.call(echo), word);
    }
    EXPECT_EQ(client.state(), client_state::connected);
    co_await client.stop();
    EXPECT_EQ(client.state(), client_state::closed);
  };
  run_with_server({9}, use());
  EXPECT_EQ(client.metrics().connected, 1u);
}

TEST_F(ReconnectingClient, RunsOneCallAtATimeInTheirOrder) {
  reconnecting_client client(loop_, server_);
  int running = 0;
  std::vector<int> order;
  const auto use = [&](int number) -> task<> {
    const auto work = [&](tcp_stream& peer) -> task<> {
      EXPECT_EQ(++running, 1);
      order.push_back(number);
      co_await peer.write_all("x");
      co_await gyre::sleep_for(1ms);
      --running;
    };
    co_await client.call(work);
  };
  run(gyre::when_all(use(1), use(2), use(3), use(4)));
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(client.metrics().waiting, 0u);
}

TEST_F(ReconnectingClient, ReplacesAConnectionThatWasClosedBetweenCallsWithoutADelay) {
  reconnecting_client client(loop_, server_, {.delay = {.initial = 24h}, .jitter = false});
  const auto use = [&]() -> task<> {
    int fd = -1;
    const auto look = [&fd](tcp_stream& peer) -> task<> {
      fd = peer.fd();
      co_await peer.write_all("x");
    };
    co_await client.call(look);
    {
      tcp_stream peer = co_await listener_.accept();
      peer.close();
    }
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&waiting, 1, 60'000), 1);
    co_await client.call(look);
  };
  run(use());
  EXPECT_EQ(client.metrics().connected, 2u);
  EXPECT_EQ(client.metrics().broken, 1u);
}

TEST_F(ReconnectingClient, LetsTheFirstCallReadTheGreetingOfTheServer) {
  reconnecting_client client(loop_, server_);
  const auto use = [&]() -> task<> {
    tcp_stream peer;
    const auto greet = [&]() -> task<> {
      peer = co_await listener_.accept();
      co_await peer.write_all("welcome");
    };
    const auto read = [](tcp_stream& from) -> task<> {
      std::array<std::byte, 7> greeting;
      static_cast<void>(co_await from.read_exactly(greeting));
    };
    auto both = gyre::when_all(client.call(read), greet());
    co_await std::move(both);
    EXPECT_EQ(client.metrics().connected, 1u);
  };
  run(use());
}

TEST_F(ReconnectingClient, GivesTheErrorOfABrokenConnectionToItsCall) {
  reconnecting_client client(loop_, server_, log_in, {.delay = {.initial = 1ms}});
  int calls = 0;
  const auto use = [&]() -> task<> {
    const auto echo = [&](lines& peer) {
      ++calls;
      return ask(peer, "request");
    };
    auto broken = as_expected(client.call(echo));
    const auto failed = co_await std::move(broken);
    EXPECT_EQ(failed.error(), std::errc::connection_reset);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(client.state(), client_state::disconnected);
    EXPECT_EQ(co_await client.call(echo), "request");
  };
  run_with_server({1, 2}, use());
  EXPECT_EQ(client.metrics().connected, 2u);
}

TEST_F(ReconnectingClient, RepeatsAnIdempotentCallOnTheNextConnection) {
  reconnecting_client client(loop_, server_, log_in, {.uses = 3, .delay = {.initial = 1ms}});
  int calls = 0;
  const auto use = [&]() -> task<> {
    const auto echo = [&](lines& peer) {
      ++calls;
      return ask(peer, "request");
    };
    EXPECT_EQ(co_await client.call_idempotent(echo), "request");
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(client.metrics().repetitions, 2u);
    // The connection breaks, and so do the next two.
    auto broken = as_expected(client.call_idempotent(echo));
    const auto failed = co_await std::move(broken);
    EXPECT_EQ(failed.error(), std::errc::connection_reset);
    EXPECT_EQ(calls, 6);
  };
  run_with_server({1, 1, 2, 1, 1}, use());
}

TEST_F(ReconnectingClient, DoesNotRepeatACallThatFailsByABug) {
  reconnecting_client client(loop_, server_);
  int calls = 0;
  const auto fail = [&](tcp_stream&) -> task<> {
    ++calls;
    throw std::logic_error("a bug");
    co_return;
  };
  EXPECT_THROW(run(client.call_idempotent(fail)), std::logic_error);
  EXPECT_EQ(calls, 1);
}

TEST_F(ReconnectingClient, TellsServerAttemptsAndLastErrorWhenItGivesUp) {
  listener_.close();
  reconnecting_client client(loop_, server_,
                             {.attempts = 4, .delay = {.initial = 1ms}, .jitter = false});
  const steady_time start = loop_.now();
  const auto use = [&]() -> task<std::string> {
    try {
      co_await client.call([](tcp_stream& peer) { return peer.write_all("x"); });
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::connection_refused);
      co_return error.what();
    }
    co_return "";
  };
  EXPECT_THAT(run(use()),
              AllOf(HasSubstr(server_ + ": gave up after 4 attempts"), HasSubstr("refused")));
  EXPECT_GE(loop_.now() - start, 7ms);  // 1 + 2 + 4
  EXPECT_EQ(client.metrics().attempts, 4u);
  EXPECT_EQ(client.metrics().failures, 4u);
}

TEST_F(ReconnectingClient, ManyCallsShareTheAttemptsAndTheirDelays) {
  std::vector<steady_time> attempts;
  const auto connect = [&]() -> task<tcp_stream> {
    attempts.push_back(loop_.now());
    throw std::system_error(std::make_error_code(std::errc::connection_refused));
    co_return tcp_stream();
  };
  reconnecting_client client(loop_, connect,
                             {.attempts = 3, .delay = {.initial = 1ms}, .jitter = false});
  int failures = 0;
  const auto use = [&]() -> task<> {
    for (int i = 0; i < 2; ++i) {
      auto calling = as_expected(client.call([](tcp_stream& peer) { return peer.write_all("x"); }));
      const auto failed = co_await std::move(calling);
      if (failed.error() == std::errc::connection_refused) ++failures;
    }
  };
  std::vector<task<>> users;
  for (int i = 0; i < 100; ++i) users.push_back(use());
  static_cast<void>(run(gyre::when_all(std::move(users))));
  EXPECT_EQ(failures, 200);
  ASSERT_EQ(attempts.size(), 6u);
  std::chrono::nanoseconds delay = 1ms;
  for (std::size_t i = 1; i < attempts.size(); ++i) {
    EXPECT_GE(attempts[i] - attempts[i - 1], delay);
    delay *= 2;
  }
}

TEST_F(ReconnectingClient, AServerThatAcceptsAndHangsUpIsNotAskedMoreOften) {
  std::vector<steady_time> attempts;
  const auto connect = [&]() -> task<unix_stream> {
    attempts.push_back(loop_.now());
    auto [here, there] = gyre::net::stream_pair(loop_);
    co_return std::move(here);
  };
  reconnecting_client client(loop_, connect, {.delay = {.initial = 1ms}, .jitter = false});
  const auto use = [&]() -> task<> {
    const auto write = [](unix_stream& peer) -> task<> { co_await peer.write_all("x"); };
    for (int i = 0; i < 4; ++i) {
      auto calling = as_expected(client.call(write));
      const auto failed = co_await std::move(calling);
      EXPECT_EQ(failed.error(), std::errc::broken_pipe);
    }
  };
  run(use());
  ASSERT_EQ(attempts.size(), 4u);
  EXPECT_GE(attempts[1] - attempts[0], 1ms);
  EXPECT_GE(attempts[2] - attempts[1], 2ms);
  EXPECT_GE(attempts[3] - attempts[2], 4ms);
}

TEST_F(ReconnectingClient, LimitsTheTimeOfAServerThatNeverAnswers) {
  reconnecting_client client(loop_, server_, log_in, {.attempts = 1, .connect_timeout = 2ms});
  const auto echo = [](lines& peer) { return ask(peer, "request"); };
  EXPECT_EQ(run(as_expected(client.call(echo))).error(), errc::connect_timeout);
}

TEST_F(ReconnectingClient, DoesNotRepeatAHandshakeThatFailsByABug) {
  int handshakes = 0;
  const auto refuse = [&](tcp_stream) -> task<lines> {
    ++handshakes;
    throw std::logic_error("a bug");
    co_return lines(tcp_stream(), delimited("\n"));
  };
  reconnecting_client client(loop_, server_, refuse);
  const auto echo = [](lines& peer) { return ask(peer, "request"); };
  EXPECT_THROW(static_cast<void>(run(client.call(echo))), std::logic_error);
  EXPECT_EQ(handshakes, 1);
}

/// A connect function that waits until the test lets it go on.
struct slow_connect {
  gyre::manual_reset_event& may_connect;
  std::string server;
  task<tcp_stream> operator()() const {
    co_await may_connect.wait();
    co_return co_await gyre::net::connect(server);
  }
};

task<> write(tcp_stream& peer) { co_await peer.write_all("x"); }

TEST_F(ReconnectingClient, AStoppedCallLeavesTheAttemptToTheOthers) {
  gyre::manual_reset_event may_connect;
  reconnecting_client client(loop_, slow_connect{may_connect, server_});
  const auto first = [&]() -> task<> {
    auto limited = as_expected(gyre::with_timeout(client.call(write), 1ms));
    const auto stopped = co_await std::move(limited);
    EXPECT_EQ(stopped.error(), std::errc::timed_out);
    EXPECT_EQ(client.state(), client_state::connecting);
    may_connect.set();
  };
  run(gyre::when_all(first(), client.call(write)));
  EXPECT_EQ(client.metrics().attempts, 1u);
}

TEST_F(ReconnectingClient, TheLastStoppedCallEndsTheAttempt) {
  gyre::manual_reset_event may_connect;
  reconnecting_client client(loop_, slow_connect{may_connect, server_});
  const auto stopped = run(as_expected(gyre::with_timeout(client.call(write), 1ms)));
  EXPECT_EQ(stopped.error(), std::errc::timed_out);
  EXPECT_EQ(client.state(), client_state::disconnected);
  EXPECT_EQ(client.metrics().waiting, 0u);
  may_connect.set();
  run(client.call(write));
}

TEST_F(ReconnectingClient, AConnectionOfAStoppedCallIsReplacedWithoutADelay) {
  reconnecting_client client(loop_, server_, {.delay = {.initial = 24h}, .jitter = false});
  const auto receive = [](tcp_stream& peer) -> task<> {
    static_cast<void>(co_await peer.receive());
  };
  run(client.call(write));  // the connection serves
  EXPECT_EQ(run(as_expected(gyre::with_timeout(client.call(receive), 1ms))).error(),
            std::errc::timed_out);
  EXPECT_EQ(client.state(), client_state::disconnected);
  run(client.call(write));
  EXPECT_EQ(client.metrics().connected, 2u);
}

// Each use of a connection that has not served yet delays the next attempt, however the use ends.
TEST_F(ReconnectingClient, AServerThatNeverServesIsNotAskedMoreOften) {
  const auto fail_by_a_bug = [](tcp_stream&) -> task<> {
    co_await gyre::yield();
    throw std::logic_error("a bug");
  };
  const auto fail_at_once = [](tcp_stream&) -> task<> { throw std::logic_error("a bug"); };
  const auto receive = [](tcp_stream& peer) -> task<> {
    static_cast<void>(co_await peer.receive());
  };
  const auto delay_after_first = [&](auto use) {
    reconnecting_client fresh(loop_, server_, {.delay = {.initial = 20ms}, .jitter = false});
    static_cast<void>(run(gyre::as_result(gyre::with_timeout(fresh.call(use), 1ms))));
    const steady_time start = loop_.now();
    static_cast<void>(run(gyre::as_result(fresh.call(write))));
    return loop_.now() - start;
  };
  EXPECT_GE(delay_after_first(fail_by_a_bug), 20ms);
  EXPECT_GE(delay_after_first(fail_at_once), 20ms);
  EXPECT_GE(delay_after_first(receive), 20ms);
}

TEST_F(ReconnectingClient, AFunctionMayFailBeforeItReturns) {
  reconnecting_client client(loop_, server_, {.uses = 3, .delay = {.initial = 1ms}});
  int calls = 0;
  const auto fail = [&](tcp_stream&) -> task<> {
    ++calls;
    throw std::system_error(std::make_error_code(std::errc::connection_reset));
  };
  EXPECT_EQ(run(as_expected(client.call_idempotent(fail))).error(), std::errc::connection_reset);
  EXPECT_EQ(calls, 3);
}

TEST_F(ReconnectingClient, ANullConnectionIsAnError) {
  const auto connect = []() -> task<std::unique_ptr<tcp_stream>> { co_return nullptr; };
  reconnecting_client client(loop_, connect);
  EXPECT_THROW(run(client.call(write)), std::logic_error);
}

TEST_F(ReconnectingClient, ARepeatedCallIsNotRefusedForTheNumberOfCallsThatWait) {
  reconnecting_client client(loop_, server_,
                             {.max_waiting = 1, .uses = 2, .delay = {.initial = 1ms}});
  int calls = 0;
  const auto fail = [&](tcp_stream&) -> task<> {
    ++calls;
    while (calls == 1 && client.metrics().waiting == 0) co_await gyre::yield();
    throw std::system_error(std::make_error_code(std::errc::connection_reset));
  };
  const auto wait = [&]() -> task<> {
    while (calls == 0) co_await gyre::yield();
    co_await client.call(write);
  };
  auto both = gyre::when_all(as_expected(client.call_idempotent(fail)), wait());
  EXPECT_EQ(std::get<0>(run(std::move(both))).error(), std::errc::connection_reset);
  EXPECT_EQ(calls, 2);
}

TEST_F(ReconnectingClient, OneThatWasMovedFromIsNotOpen) {
  reconnecting_client client(loop_, server_);
  const reconnecting_client taken = std::move(client);
  EXPECT_EQ(run(as_expected(client.call(write))).error(),
            errc::not_open);  // NOLINT: that is tested
  client.close();
  run(client.stop());
  EXPECT_EQ(client.state(), client_state::closed);
  EXPECT_EQ(client.metrics().attempts, 0u);
}

TEST_F(ReconnectingClient, ACallThatWasStoppedBeforeDoesNothing) {
  reconnecting_client client(loop_, server_);
  gyre::inplace_stop_source stop;
  stop.request_stop();
  auto stopped = gyre::stop_when(client.call(write), stop.get_token());
  EXPECT_EQ(run(as_expected(std::move(stopped))).error(), std::errc::operation_canceled);
  EXPECT_EQ(client.metrics().attempts, 0u);
}

TEST_F(ReconnectingClient, DestroyedCallsGiveTheirTurnsBack) {
  const auto drop_early = [](gyre::executor&, task<> work) -> gyre::test::droppable {
    co_await std::move(work);
    ADD_FAILURE() << "went on";
  };
  const auto receive = [](tcp_stream& peer) -> task<> {
    static_cast<void>(co_await peer.receive());
  };
  gyre::manual_reset_event may_connect;
  reconnecting_client client(loop_, slow_connect{may_connect, server_});
  gyre::executor& here = loop_;
  const auto turn_until = [&](client_state state) {
    while (client.state() != state) loop_.poll();
  };
  {
    const gyre::test::droppable connecting = drop_early(here, client.call(receive));
    turn_until(client_state::connecting);
  }
  turn_until(client_state::disconnected);
  may_connect.set();
  {
    const gyre::test::droppable running = drop_early(here, client.call(receive));
    turn_until(client_state::connected);
    while (client.metrics().waiting > 0) loop_.poll();
    const gyre::test::droppable waiting = drop_early(here, client.call(receive));
    EXPECT_EQ(client.metrics().waiting, 1u);
  }
  EXPECT_EQ(client.state(), client_state::disconnected);
  EXPECT_EQ(client.metrics().waiting, 0u);
  run(client.call(write));
}

TEST_F(ReconnectingClient, CompletedAndStoppedAtOnceLosesNoTurn) {
  for (const bool stopped_first : {false, true}) {
    reconnecting_client client(loop_, server_);
    const auto use = [&]() -> task<> {
      gyre::inplace_stop_source source;
      gyre::manual_reset_event done;
      bool waits = false;
      const auto wait = [&](tcp_stream&) -> task<> {
        waits = true;
        co_await done.wait();
      };
      const auto meet = [&]() -> task<> {
        while (!waits) co_await gyre::yield();
        if (stopped_first) source.request_stop();
        done.set();
        if (!stopped_first) source.request_stop();
      };
      auto calling = as_expected(gyre::stop_when(client.call(wait), source.get_token()));
      auto both = gyre::when_all(std::move(calling), meet());
      static_cast<void>(co_await std::move(both));
      co_await client.call(write);
    };
    run(use());
  }
}

TEST_F(ReconnectingClient, CloseEndsRunningAndWaitingCallsAtOnce) {
  reconnecting_client client(loop_, server_);
  const auto receive = [](tcp_stream& peer) -> task<> {
    static_cast<void>(co_await peer.receive());
  };
  const auto end = [&]() -> task<> {
    tcp_stream peer = co_await listener_.accept();
    while (client.state() != client_state::connected) co_await gyre::yield();
    client.close();
    const gyre::io::received rest = co_await peer.receive();
    EXPECT_TRUE(rest.empty());
  };
  auto all =
      gyre::when_all(as_expected(client.call(receive)), as_expected(client.call(receive)), end());
  const auto results = run(std::move(all));
  EXPECT_EQ(std::get<0>(results).error(), errc::closed);
  EXPECT_EQ(std::get<1>(results).error(), errc::closed);
  EXPECT_EQ(run(as_expected(client.call(receive))).error(), errc::not_open);
  run(client.stop());
}

TEST_F(ReconnectingClient, CloseEndsAttemptsAndDelays) {
  for (const bool in_attempt : {true, false}) {
    const auto connect = [&]() -> task<tcp_stream> {
      if (in_attempt) co_await gyre::sleep_for(24h);
      throw std::system_error(std::make_error_code(std::errc::connection_refused));
    };
    reconnecting_client client(
        loop_, connect,
        {.connect_timeout = 48h, .delay = {.initial = 24h, .longest = 24h}, .jitter = false});
    const auto state = in_attempt ? client_state::connecting : client_state::waiting;
    const auto end = [&]() -> task<> {
      while (client.state() != state) co_await gyre::yield();
      co_await client.stop();
    };
    auto both = gyre::when_all(as_expected(client.call(write)), end());
    EXPECT_EQ(std::get<0>(run(std::move(both))).error(), errc::closed);
  }
}

TEST_F(ReconnectingClient, CallsMayOutliveTheClient) {
  auto client = std::make_unique<reconnecting_client<>>(loop_, server_);
  const auto receive = [](tcp_stream& peer) -> task<> {
    static_cast<void>(co_await peer.receive());
  };
  const auto destroy = [&]() -> task<> {
    while (client->state() != client_state::connected) co_await gyre::yield();
    client.reset();
  };
  auto both = gyre::when_all(as_expected(client->call(receive)), destroy());
  EXPECT_EQ(std::get<0>(run(std::move(both))).error(), errc::closed);
}

TEST_F(ReconnectingClient, LimitsTheCallsThatWait) {
  reconnecting_client client(loop_, server_, {.max_waiting = 1});
  const auto receive = [](tcp_stream& peer) -> task<> {
    static_cast<void>(co_await peer.receive());
  };
  const auto use = [&]() -> task<> {
    while (client.state() != client_state::connected) co_await gyre::yield();
    auto calls =
        gyre::when_all(as_expected(client.call(receive)), as_expected(client.call(receive)));
    const auto [waited, refused] = co_await std::move(calls);
    EXPECT_EQ(refused.error(), errc::waiting_limit);
    EXPECT_EQ(waited.error(), errc::closed);
  };
  const auto end = [&]() -> task<> {
    while (client.metrics().waiting == 0) co_await gyre::yield();
    co_await gyre::sleep_for(1ms);
    client.close();
  };
  auto all = gyre::when_all(as_expected(client.call(receive)), use(), end());
  EXPECT_EQ(std::get<0>(run(std::move(all))).error(), errc::closed);
}

struct slow_end {
  bool& ended;
  bool is_reusable() const { return true; }
  task<> stop() {
    co_await gyre::sleep_for(1ms);
    ended = true;
  }
};

TEST_F(ReconnectingClient, EachStopWaitsForTheEndOfTheConnection) {
  bool ended = false;
  const auto connect = [&]() -> task<slow_end> { co_return slow_end{ended}; };
  reconnecting_client client(loop_, connect);
  run(client.call([](slow_end&) -> task<> { co_return; }));
  const auto stop = [&]() -> task<> {
    co_await client.stop();
    EXPECT_TRUE(ended);
  };
  run(gyre::when_all(stop(), stop()));
}

TEST_F(ReconnectingClient, AHandshakeThatOutlivesCloseFailsTheCallAsClosed) {
  gyre::manual_reset_event connecting;
  const auto connect = [&]() -> task<tcp_stream> {
    connecting.set();
    co_await gyre::shielded(gyre::sleep_for(1ms));
    co_return co_await gyre::shielded(gyre::net::connect(server_));
  };
  reconnecting_client client(loop_, connect);
  const auto close = [&]() -> task<> {
    co_await connecting.wait();
    client.close();
  };
  auto both = gyre::when_all(as_expected(client.call(write)), close());
  EXPECT_EQ(std::get<0>(run(std::move(both))).error(), errc::closed);
}

/// A connection with many requests on their way, and an end of its own.
struct many_requests {
  int& ended;
  bool broken = false;

  bool is_reusable() const { return !broken; }
  task<> stop() {
    co_await gyre::yield();
    ++ended;
  }
};

TEST_F(ReconnectingClient, SharedConnectionsEndWithTheirLastCall) {
  int ended = 0;
  const auto connect = [&]() -> task<std::unique_ptr<many_requests>> {
    co_return std::unique_ptr<many_requests>(new many_requests{ended});
  };
  reconnecting_client client(loop_, connect, {.concurrency = 2, .delay = {.initial = 1us}});
  const auto use = [&]() -> task<> {
    const auto break_it = [](many_requests& peer) -> task<> {
      co_await gyre::yield();
      peer.broken = true;
      throw std::runtime_error("broken");
    };
    const auto refuse = [](many_requests&) -> task<> {
      throw std::runtime_error("no such key");  // of this call only
      co_return;
    };
    const auto finish = [&](many_requests& peer) -> task<> {
      while (!peer.broken) co_await gyre::yield();
      co_await gyre::sleep_for(1ms);
      EXPECT_EQ(ended, 0);
    };
    auto refused = gyre::as_result(client.call(refuse));
    EXPECT_FALSE((co_await std::move(refused)).has_value());
    EXPECT_EQ(client.state(), client_state::connected);
    auto both = gyre::when_all(gyre::as_result(client.call(break_it)), client.call(finish));
    static_cast<void>(co_await std::move(both));
    EXPECT_EQ(ended, 1);
    co_await client.call([](many_requests& peer) -> task<> {
      EXPECT_FALSE(peer.broken);
      co_return;
    });
    EXPECT_EQ(client.metrics().connected, 2u);
    co_await client.stop();
    EXPECT_EQ(ended, 2);
  };
  run(use());
}

TEST_F(ReconnectingClient, BelongsToItsLoop) {
  reconnecting_client client(loop_, server_);
  EXPECT_EQ(gyre::sync_wait(as_expected(client.call(write))).error(), errc::wrong_thread);
}

TEST_F(ReconnectingClient, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(reconnecting_client(loop_, server_, {.concurrency = 0}), std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.attempts = 0}), std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.uses = 0}), std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.max_waiting = 0}), std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.delay = {.initial = -1ms}}),
               std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, "unix:/tmp/x"), std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.connect_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.connecting = {.attempt_delay = -1ms}}),
               std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, server_, {.connecting = {.resolution_delay = -1ms}}),
               std::invalid_argument);
  EXPECT_THROW(reconnecting_client(loop_, "no port"), std::system_error);
}

task<std::size_t> ping(tcp_stream& peer) {
  co_await peer.write_all("ping");
  std::array<std::byte, 4> answer;
  const std::size_t count = co_await peer.read_exactly(answer);
  co_return count;
}

task<int> ping_often(reconnecting_client<>& client) {
  std::vector<task<std::size_t>> calls;
  calls.reserve(200);
  for (int i = 0; i < 200; ++i) calls.push_back(client.call_idempotent(ping));
  int sum = 0;
  for (const std::size_t each : co_await gyre::when_all(std::move(calls))) {
    sum += static_cast<int>(each) / 4;
  }
  co_return sum;
}

TEST(ReconnectingClientOfLoops, EachLoopHasAClientOfItsOwnAndASurlyServer) {
  gyre::loop_thread server_thread;
  gyre::net::tcp_server server(server_thread);
  int answers = 0;
  server.on_message([&](gyre::net::tcp_connection& from, gyre::io::input& in) {
    from.send(in.bytes());
    in.consume_all();
    if (++answers % 50 == 0) from.close();
  });
  server.listen(any_port);
  server.start();
  gyre::loop_pool loops(2);
  gyre::sharded<reconnecting_client<>> clients(loops);
  gyre::sync_wait(clients.start(server.local_endpoint(),
                                gyre::net::reconnecting_client_options{.delay = {.initial = 1us}}));
  EXPECT_EQ(gyre::sync_wait(clients.map_reduce(&ping_often, 0)), 400);
  gyre::sync_wait(clients.stop());
}

}  // namespace
}  // namespace reconnecting_client_test
