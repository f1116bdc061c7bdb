// SPDX-License-Identifier: Apache-2.0
// The client of Redis beside servers that fail, and peers that are no Redis.
#include <gyre/engines/redis/client.hpp>

#include <gyre/base/detail/sanitizer.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/redis_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace redis_client_faults_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::redis::client;
using gyre::redis::client_options;
using gyre::redis::errc;
using gyre::redis::subscription;
using gyre::test::redis_server;
using gyre::test::calls::error_of;
using testing::HasSubstr;

constexpr std::size_t cancelled_calls = gyre::detail::asan_is_on ? 20'000 : 1'000;

// Waits until `count` commands are in flight.
task<> reach_flight(client& cache, std::size_t count) {
  while (cache.metrics().in_flight < count) co_await gyre::yield();
}

// --- A real server ---

struct RedisFaults : testing::Test {
  gyre::loop loop;
  redis_server server{loop};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  client connect(const client_options& options = {}) {
    return client(loop, server.address(), options);
  }
};

struct echo_counts {
  int replies = 0;
  int lost = 0;
  int cancelled = 0;
};

// Sends texts that only this caller sends, until `rounds` have come back.
task<> echo(client& cache, std::string name, int rounds, echo_counts& counts) {
  for (int round = 0; round < rounds;) {
    const std::string text = name + ' ' + std::to_string(round);
    const auto result = co_await as_expected(cache.call<std::string>("ECHO", text));
    if (result) {
      EXPECT_EQ(*result, text);
      ++round;
      ++counts.replies;
    } else {
      EXPECT_EQ(result.error(), errc::connection_lost);
      ++counts.lost;
    }
  }
}

task<> restart(redis_server& server, client& cache, int times) {
  for (; times > 0; --times) {
    co_await reach_flight(cache, 1);
    co_await server.kill();
    co_await server.start_again();
    EXPECT_EQ(co_await cache.call_idempotent<std::string>("ECHO", "up"), "up");
  }
}

TEST_F(RedisFaults, NoReplyReachesAnotherCallerWhileTheServerRestarts) {
  run([](RedisFaults& test) -> task<> {
    client cache = test.connect({.max_in_flight = 16,
                                 .max_connect_attempts = 10'000,
                                 .initial_delay = 1ms,
                                 .longest_delay = 5ms});
    echo_counts counts;
    std::vector<task<>> all;
    for (int each = 0; each < 40; ++each) {
      all.push_back(echo(cache, std::to_string(each), 100, counts));
    }
    all.push_back(restart(test.server, cache, 3));
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(counts.replies, 4000);
    EXPECT_EQ(cache.metrics().in_flight, 0U);
    EXPECT_EQ(cache.metrics().waiting, 0U);
    EXPECT_GE(cache.metrics().connections, 4U);
  }(*this));
}

// Calls that are stopped before, while, and after their commands are sent.
task<> echo_until_stopped(client& cache, std::size_t calls, unsigned seed, echo_counts& counts) {
  std::minstd_rand random(seed);
  for (std::size_t each = 0; each < calls; ++each) {
    const std::string text = std::to_string(seed) + ' ' + std::to_string(each);
    gyre::inplace_stop_source source;
    auto stopping = [](gyre::inplace_stop_source& stop_source, unsigned turns) -> task<> {
      for (; turns > 0; --turns) co_await gyre::yield();
      stop_source.request_stop();
    };
    auto echoing = as_expected(
        gyre::as_task(gyre::stop_when(cache.call<std::string>("ECHO", text), source.get_token())));
    auto both = gyre::when_all(gyre::as_task(std::move(echoing)), stopping(source, random() % 8));
    const auto [result, stopped] = co_await std::move(both);
    if (result) {
      EXPECT_EQ(*result, text);
      ++counts.replies;
    } else {
      EXPECT_EQ(result.error(), std::errc::operation_canceled);
      ++counts.cancelled;
    }
  }
}

TEST_F(RedisFaults, NoReplyReachesAnotherCallerAfterStops) {
  run([](RedisFaults& test) -> task<> {
    constexpr unsigned callers = 25;
    client cache = test.connect({.max_in_flight = 10});
    echo_counts counts;
    std::vector<task<>> all;
    for (unsigned each = 0; each < callers; ++each) {
      all.push_back(echo_until_stopped(cache, cancelled_calls / callers, each + 1, counts));
    }
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(co_await cache.call<std::string>("ECHO", "end"), "end");
    EXPECT_EQ(cache.metrics().in_flight, 0U);
    EXPECT_EQ(cache.metrics().waiting, 0U);
    EXPECT_EQ(cache.metrics().connections, 1U);
    EXPECT_GT(counts.cancelled, 0);
  }(*this));
}

TEST_F(RedisFaults, AStoppedSubscriptionLeavesTheConnectionToOthers) {
  run([](RedisFaults& test) -> task<> {
    client cache = test.connect();
    EXPECT_EQ(co_await cache.call<std::string>("ECHO", "1"), "1");
    test.server.pause();
    gyre::inplace_stop_source source;
    auto stopping = [](client& target, gyre::inplace_stop_source& stop) -> task<> {
      co_await reach_flight(target, 1);
      stop.request_stop();
    };
    auto subscribing = gyre::as_result(
        gyre::as_task(gyre::stop_when(cache.subscribe("news"), source.get_token())));
    auto both = gyre::when_all(gyre::as_task(std::move(subscribing)), stopping(cache, source));
    const auto [result, stopped] = co_await std::move(both);
    EXPECT_FALSE(result.has_value());
    test.server.resume();
    EXPECT_EQ(co_await cache.call<std::string>("ECHO", "2"), "2");
    EXPECT_EQ(co_await cache.call<int>("PUBLISH", "news", "x"), 0);
    EXPECT_EQ(cache.metrics().connections, 1U);
  }(*this));
}

TEST_F(RedisFaults, AServerThatIsStoppedWithinTheLoginFailsTheCallsThatWait) {
  run([](RedisFaults& test) -> task<> {
    test.server.pause();
    client cache =
        test.connect({.max_connect_attempts = 2, .connect_timeout = 20ms, .initial_delay = 1ms});
    EXPECT_EQ(co_await error_of(cache.call<void>("PING")), errc::no_reply);
    EXPECT_EQ(cache.metrics().connections, 2U);
    test.server.resume();
    client other = test.connect();
    EXPECT_EQ(co_await other.call<std::string>("ECHO", "up"), "up");
  }(*this));
}

TEST_F(RedisFaults, OutputIsBoundedWhileTheServerIsStopped) {
  run([](RedisFaults& test) -> task<> {
    client cache = test.connect();
    EXPECT_EQ(co_await cache.call<std::string>("ECHO", "1"), "1");
    test.server.pause();
    const std::string value(std::size_t{1} << 20, 'x');
    constexpr int calls = 20;
    std::vector<task<>> all;
    for (int each = 0; each < calls; ++each) {
      all.push_back(cache.call<void>("SET", each, std::string_view(value)));
    }
    auto checking = [](client& target, redis_server& process) -> task<> {
      while (target.metrics().in_flight + target.metrics().waiting < calls) {
        co_await gyre::yield();
      }
      EXPECT_LE(target.metrics().in_flight, 4U);
      process.resume();
    };
    all.push_back(checking(cache, test.server));
    co_await gyre::when_all(std::move(all));
    EXPECT_EQ(co_await cache.call<int>("DBSIZE"), calls);
  }(*this));
}

TEST_F(RedisFaults, ClosingFailsCallsThatWaitForTheirTurn) {
  run([](RedisFaults& test) -> task<> {
    client cache = test.connect({.max_in_flight = 1});
    EXPECT_EQ(co_await cache.call<std::string>("ECHO", "1"), "1");
    test.server.pause();
    auto closing = [](client& target) -> task<> {
      while (target.metrics().waiting < 2) co_await gyre::yield();
      target.close();
    };
    auto calls =
        gyre::when_all(error_of(cache.call<void>("PING")), error_of(cache.call<void>("PING")),
                       error_of(cache.call<void>("PING")), closing(cache));
    const auto [first, second, third, closed] = co_await std::move(calls);
    for (const std::error_code error : {first, second, third}) {
      EXPECT_EQ(error, gyre::io::errc::closed);
    }
    test.server.resume();
  }(*this));
}

TEST_F(RedisFaults, DestroyedWithCallsInFlight) {
  run([](RedisFaults& test) -> task<> {
    auto cache = std::make_unique<client>(test.connect());
    EXPECT_EQ(co_await cache->call<std::string>("ECHO", "1"), "1");
    test.server.pause();
    auto destroying = [](std::unique_ptr<client>& owner) -> task<> {
      co_await reach_flight(*owner, 2);
      owner.reset();
    };
    auto calls = gyre::when_all(error_of(cache->call<void>("PING")),
                                error_of(cache->call<void>("PING")), destroying(cache));
    const auto [first, second, destroyed] = co_await std::move(calls);
    EXPECT_EQ(first, gyre::io::errc::closed);
    EXPECT_EQ(second, gyre::io::errc::closed);
    test.server.resume();
  }(*this));
}

// --- Peers that follow a script ---

// Waits for a text, and then sends bytes.
struct step {
  std::string_view awaited;
  std::string reply;
};
constexpr const char* logged_in = "%0\r\n";

template <class... Steps>
std::vector<step> script(Steps... steps) {
  std::vector<step> all;
  (all.push_back(std::move(steps)), ...);
  return all;
}

task<std::string> read_until_end(gyre::net::tcp_stream& peer) {
  std::string text;
  for (;;) {
    std::array<char, 4096> room;
    const std::span<char> space(room);
    const auto count = co_await as_expected(peer.read_some(std::as_writable_bytes(space)));
    if (!count || *count == 0) co_return text;
    text.append(room.data(), *count);
  }
}

// Serves one connection, and returns what came after the last step.
task<std::string> serve(gyre::net::tcp_listener& listener, std::vector<step> steps) {
  gyre::net::tcp_stream peer = co_await listener.accept();
  std::string text;
  for (const step& each : steps) {
    while (!text.contains(each.awaited)) {
      std::array<char, 4096> room;
      const std::span<char> space(room);
      const auto count = co_await as_expected(peer.read_some(std::as_writable_bytes(space)));
      if (!count || *count == 0) co_return text;
      text.append(room.data(), *count);
    }
    text.erase(0, text.find(each.awaited) + each.awaited.size());
    const auto sent = co_await as_expected(peer.write_all(each.reply));
    EXPECT_TRUE(sent);
  }
  text += co_await read_until_end(peer);
  co_return text;
}

struct RedisPeer : testing::Test {
  gyre::loop loop;
  gyre::net::tcp_listener listener{loop,
                                   gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0)};

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
  client connect(client_options options = {}) {
    options.max_connect_attempts = 1;
    return client(loop, listener.local_endpoint(), options);
  }
};

struct garbage {
  const char* bytes;
  errc error;
};

TEST_F(RedisPeer, GarbageFailsTheLogin) {
  for (const char* bytes :
       {"HTTP/1.1 400 Bad Request\r\n\r\n", "220 ready\r\n", "\x15\x03\x01", "$-5\r\n",
        "+OK\r\n:1\r\n+unasked\r\n", ">2\r\n+subscribe\r\n+x\r\n", "*1\r\n$x\r\n"}) {
    run([](RedisPeer& test, const char* garbage) -> task<> {
      client cache = test.connect();
      auto both = gyre::when_all(serve(test.listener, script(step{"HELLO", garbage})),
                                 error_of(cache.call<void>("PING")));
      const auto [rest, error] = co_await std::move(both);
      EXPECT_EQ(error, errc::bad_reply) << garbage;
    }(*this, bytes));
  }
}

TEST_F(RedisPeer, GarbageFailsTheCallsInFlight) {
  for (const garbage& each :
       {garbage{"x\r\n", errc::bad_reply}, garbage{"*-3\r\n", errc::bad_reply},
        garbage{">2\r\n+subscribe\r\n+x\r\n", errc::bad_reply},
        garbage{"$99999999999\r\n", errc::reply_too_large},
        garbage{"$2\r\nabc\r\n", errc::bad_reply}}) {
    run([](RedisPeer& test, garbage reply) -> task<> {
      client cache = test.connect();
      auto both = gyre::when_all(
          serve(test.listener, script(step{"HELLO", logged_in}, step{"PING", reply.bytes})),
          error_of(cache.call<void>("PING")), error_of(cache.call<void>("PING")));
      const auto [rest, first, second] = co_await std::move(both);
      EXPECT_EQ(first, reply.error) << reply.bytes;
      EXPECT_EQ(second, reply.error) << reply.bytes;
    }(*this, each));
  }
}

TEST_F(RedisPeer, SilenceFailsTheCallsInFlight) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect({.reply_timeout = 200ms});
    auto both = gyre::when_all(serve(test.listener, script(step{"HELLO", logged_in})),
                               error_of(cache.call<void>("PING")));
    const auto [rest, error] = co_await std::move(both);
    EXPECT_EQ(error, errc::no_reply);
  }(*this));
}

TEST_F(RedisPeer, AnIdleConnectionIsChecked) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect({.ping_interval = 20ms});
    auto calling = [](client& target) -> task<> {
      EXPECT_EQ(co_await target.call<std::string>("ECHO", "x"), "x");
    };
    std::vector<step> steps = script(step{"HELLO", logged_in}, step{"ECHO", "+x\r\n"},
                                     step{"PING\r\n", "+PONG\r\n"}, step{"PING\r\n", "x"});
    auto both = gyre::when_all(serve(test.listener, std::move(steps)), calling(cache));
    co_await std::move(both);
  }(*this));
}

TEST_F(RedisPeer, MessagesBesideRepliesAreDropped) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect();
    auto serving = [](RedisPeer& fixture) -> task<> {
      std::vector<step> steps =
          script(step{"HELLO", logged_in},
                 step{"ECHO", ">3\r\n+message\r\n+a\r\n+b\r\n>1\r\n+other\r\n>0\r\n+x\r\n"});
      co_await serve(fixture.listener, std::move(steps));
    };
    auto calling = [](client target) -> task<> {
      EXPECT_EQ(co_await target.call<std::string>("ECHO", "x"), "x");
    };
    auto both = gyre::when_all(serving(test), calling(std::move(cache)));
    co_await std::move(both);
  }(*this));
}

TEST_F(RedisPeer, APlainReplyConfirmsNoSubscription) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect();
    auto subscribing = [](client& target) -> task<> {
      static_cast<void>(co_await target.subscribe("news"));
    };
    auto serving = [](RedisPeer& fixture) -> task<> {
      for (int each = 0; each < 3; ++each) {
        std::vector<step> steps = script(step{"HELLO", logged_in}, step{"SUBSCRIBE", "+OK\r\n"});
        co_await serve(fixture.listener, std::move(steps));
      }
    };
    auto both = gyre::when_all(error_of(subscribing(cache)), serving(test));
    const auto [error, served] = co_await std::move(both);
    EXPECT_EQ(error, errc::bad_reply);
  }(*this));
}

TEST_F(RedisPeer, ASubscriptionSurvivesARefusedLogin) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect();
    auto serving = [](RedisPeer& fixture) -> task<> {
      const std::string confirmed = ">3\r\n+subscribe\r\n+news\r\n:1\r\n";
      {
        gyre::net::tcp_stream peer = co_await fixture.listener.accept();
        static_cast<void>(co_await peer.receive());
        co_await peer.write_all(std::string_view(logged_in));
        static_cast<void>(co_await peer.receive());
        co_await peer.write_all(confirmed);
      }
      {
        gyre::net::tcp_stream peer = co_await fixture.listener.accept();
        co_await peer.write_all(std::string_view("-ERR max number of clients reached\r\n"));
      }
      std::vector<step> steps =
          script(step{"HELLO", logged_in},
                 step{"SUBSCRIBE", confirmed + ">3\r\n+message\r\n+news\r\n+x\r\n"});
      co_await serve(fixture.listener, std::move(steps));
    };
    auto following = [](client target) -> task<> {
      subscription news = co_await target.subscribe("news");
      const auto message = co_await news.next();
      EXPECT_EQ(message->text, "x");
      EXPECT_TRUE(message->follows_gap);
    };
    auto both = gyre::when_all(serving(test), following(std::move(cache)));
    co_await std::move(both);
  }(*this));
}

TEST_F(RedisPeer, AnEndWithinTheLoginFailsTheCallsThatWait) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect();
    auto closing = [](RedisPeer& fixture) -> task<> {
      gyre::net::tcp_stream peer = co_await fixture.listener.accept();
      peer.close();
    };
    auto both = gyre::when_all(closing(test), error_of(cache.call<void>("PING")));
    const auto [closed, error] = co_await std::move(both);
    EXPECT_EQ(error, errc::connection_lost);
  }(*this));
}

TEST_F(RedisPeer, RepliesInSmallPieces) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect();
    auto serving = [](RedisPeer& fixture) -> task<> {
      gyre::net::tcp_stream peer = co_await fixture.listener.accept();
      static_cast<void>(co_await peer.receive());
      for (const char each : std::string_view("%1\r\n+server\r\n+redis\r\n")) {
        co_await peer.write_all(std::string_view(&each, 1));
        co_await gyre::yield();
      }
      static_cast<void>(co_await peer.receive());
      for (const char each : std::string_view("*2\r\n$3\r\na\r\n\r\n:7\r\n")) {
        co_await peer.write_all(std::string_view(&each, 1));
        co_await gyre::yield();
      }
    };
    auto calling = [](client& target) -> task<> {
      const auto pair = co_await target.call<std::pair<std::string, int>>("X");
      EXPECT_EQ(pair, std::pair(std::string("a\r\n", 3), 7));
    };
    auto both = gyre::when_all(serving(test), calling(cache));
    co_await std::move(both);
  }(*this));
}

TEST_F(RedisPeer, AnOldServerIsSpokenToInResp2) {
  run([](RedisPeer& test) -> task<> {
    client cache = test.connect({.password = "secret", .name = "me", .database = 2});
    auto calling = [](client target) -> task<> {
      EXPECT_EQ(co_await target.call<std::optional<std::string>>("GET", "a"), std::nullopt);
      const auto map = co_await target.call<std::map<std::string, int>>("HGETALL", "b");
      EXPECT_EQ(map, (std::map<std::string, int>{{"x", 1}}));
      auto subscribing = as_expected(target.subscribe("news"));
      const auto news = co_await std::move(subscribing);
      EXPECT_EQ(news.error(), errc::not_supported);
    };
    auto both = gyre::when_all(
        serve(test.listener,
              script(step{"HELLO\r\n", "-ERR unknown command `HELLO`, with args\r\n"},
                     step{"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n", "+OK\r\n"},
                     step{"SETNAME\r\n$2\r\nme\r\n", "+OK\r\n"},
                     step{"SELECT\r\n$1\r\n2\r\n", "+OK\r\n"}, step{"GET\r\n", "$-1\r\n"},
                     step{"HGETALL\r\n", "*2\r\n$1\r\nx\r\n$1\r\n1\r\n"})),
        calling(std::move(cache)));
    const auto [rest, called] = co_await std::move(both);
    EXPECT_EQ(rest, "$1\r\nb\r\n");
  }(*this));
}

}  // namespace
}  // namespace redis_client_faults_test
