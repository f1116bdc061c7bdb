// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connection_pool.hpp>

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
#include <gyre/task/schedule.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
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

namespace connection_pool_test {
namespace {

using namespace std::chrono_literals;
using gyre::as_expected;
using gyre::task;
using gyre::io::errc;
using gyre::net::connection_pool;
using gyre::net::delimited;
using gyre::net::endpoint;
using gyre::net::ip_address;
using gyre::net::pooled_connection;
using gyre::net::tcp_listener;
using gyre::net::tcp_stream;
using testing::ElementsAre;
using testing::HasSubstr;

using lines = gyre::net::framed<delimited, tcp_stream>;

const endpoint any_port(ip_address::loopback_v4(), 0);

/// Waits until the peer's bytes, or its end, have come.
void wait_until_readable(int fd) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&waiting, 1, 60'000), 1);
}

task<std::size_t> next_bytes(tcp_stream& from) {
  std::array<std::byte, 64> room;
  const std::size_t count = co_await from.read_some(room);
  co_return count;
}

/// A server that does what the test says: the kernel completes its connections.
class ConnectionPool : public testing::Test {
 protected:
  template <class Work>
  auto run(Work work) {
    return gyre::sync_wait(loop_, std::move(work));
  }

  gyre::loop loop_{{}, std::make_unique<gyre::test::idle_time_poller>()};
  tcp_listener listener_{loop_, any_port};
  const std::string server_ = listener_.local_endpoint().to_string();
};

TEST_F(ConnectionPool, GivesTheConnectionThatWasUsedLast) {
  connection_pool pool(loop_, server_);
  const auto use = [&]() -> task<> {
    auto first = co_await pool.acquire();
    auto second = co_await pool.acquire();
    EXPECT_FALSE(first.is_reused());
    EXPECT_NE(first->fd(), second->fd());
    const int last = second->fd();
    first.give_back();
    second.give_back();
    EXPECT_FALSE(second.has_connection());
    EXPECT_EQ(pool.metrics().idle, 2u);
    auto third = co_await pool.acquire();
    EXPECT_TRUE(third.is_reused());
    EXPECT_EQ(third->fd(), last);
    third.give_back();
  };
  run(use());
  const auto counts = pool.metrics();
  EXPECT_EQ(counts.open, 2u);
  EXPECT_EQ(counts.created, 2u);
  EXPECT_EQ(counts.reused, 1u);
  EXPECT_EQ(counts.discarded, 0u);
}

TEST_F(ConnectionPool, ConnectsByName) {
  const std::string by_name = "localhost:" + std::to_string(listener_.local_endpoint().port());
  connection_pool pool(loop_, by_name);
  auto connection = run(pool.acquire());
  EXPECT_TRUE(connection->is_open());
}

TEST_F(ConnectionPool, ClosesAConnectionThatIsNotGivenBack) {
  connection_pool pool(loop_, server_, {.max_open = 1});
  const auto fail = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    co_await connection->write_all("half a requ");
    throw std::runtime_error("the answer makes no sense");
  };
  EXPECT_THROW(run(fail()), std::runtime_error);
  EXPECT_EQ(pool.metrics().open, 0u);
  EXPECT_EQ(pool.metrics().discarded, 1u);
  const auto next = [&]() -> task<> {
    tcp_stream peer = co_await listener_.accept();
    EXPECT_EQ(co_await next_bytes(peer), 11u);
    EXPECT_EQ(co_await next_bytes(peer), 0u);
    auto connection = co_await pool.acquire();
    EXPECT_FALSE(connection.is_reused());
  };
  run(next());
}

TEST_F(ConnectionPool, KeepsAConnectionThatWasNeverUsed) {
  connection_pool pool(loop_, server_);
  static_cast<void>(run(pool.acquire()));
  EXPECT_EQ(pool.metrics().idle, 1u);
}

TEST_F(ConnectionPool, ReplacesAnIdleConnectionThatTheServerHasLeft) {
  enum class way { end, reset, unexpected_bytes };
  for (const way how : {way::end, way::reset, way::unexpected_bytes}) {
    connection_pool pool(loop_, server_);
    const auto use = [&]() -> task<> {
      auto connection = co_await pool.acquire();
      const int fd = connection->fd();
      tcp_stream peer = co_await listener_.accept();
      connection.give_back();
      if (how == way::end) peer.close();
      if (how == way::reset) peer.reset();
      if (how == way::unexpected_bytes) co_await peer.write_all("go away");
      wait_until_readable(fd);
      auto other = co_await pool.acquire();
      EXPECT_FALSE(other.is_reused());
      tcp_stream other_peer = co_await listener_.accept();
      co_await other->write_all("hello");
      EXPECT_EQ(co_await next_bytes(other_peer), 5u);
      other.give_back();
    };
    run(use());
    EXPECT_EQ(pool.metrics().discarded, 1u);
    EXPECT_EQ(pool.metrics().open, 1u);
  }
}

TEST_F(ConnectionPool, MakesANewConnectionInThePlaceOfTheOldestIdleOne) {
  connection_pool pool(loop_, server_, {.max_open = 2});
  const auto use = [&]() -> task<> {
    auto oldest = co_await pool.acquire();
    auto newest = co_await pool.acquire();
    const int kept = newest->fd();
    oldest.give_back();
    newest.give_back();
    auto fresh = co_await gyre::net::detail::acquire_new(pool);
    EXPECT_FALSE(fresh.is_reused());
    EXPECT_EQ(pool.metrics().open, 2u);
    auto idle = co_await pool.acquire();
    EXPECT_TRUE(idle.is_reused());
    EXPECT_EQ(idle->fd(), kept);
  };
  run(use());
  EXPECT_EQ(pool.metrics().created, 3u);
}

TEST_F(ConnectionPool, MakesANewConnectionInTheTurnOfItsCaller) {
  connection_pool pool(loop_, server_, {.max_open = 1});
  std::vector<bool> reused;
  const auto use = [&](bool needs_new) -> task<> {
    auto acquiring = needs_new ? gyre::net::detail::acquire_new(pool) : pool.acquire();
    auto connection = co_await std::move(acquiring);
    reused.push_back(connection.is_reused());
    EXPECT_EQ(pool.metrics().open, 1u);
    co_await gyre::yield();
    connection.give_back();
  };
  run(gyre::when_all(use(false), use(true), use(false)));
  EXPECT_THAT(reused, ElementsAre(false, false, true));
  EXPECT_EQ(pool.metrics().created, 2u);
  EXPECT_EQ(pool.metrics().waiting, 0u);
}

TEST_F(ConnectionPool, ServesWaitingCallersInTheirOrder) {
  connection_pool pool(loop_, server_, {.max_open = 1});
  std::vector<int> order;
  const auto use = [&](int number) -> task<> {
    auto connection = co_await pool.acquire();
    order.push_back(number);
    co_await gyre::yield();
    co_await connection->write_all("x");
    connection.give_back();
  };
  run(gyre::when_all(use(1), use(2), use(3), use(4)));
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(pool.metrics().created, 1u);
  EXPECT_EQ(pool.metrics().waiting, 0u);
}

TEST_F(ConnectionPool, HandsAConnectionToAWaitingCallerAlsoWhereNoneMayBeIdle) {
  connection_pool pool(loop_, server_, {.max_open = 1, .max_idle = 0});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    co_await gyre::yield();
    connection.give_back();
  };
  run(gyre::when_all(use(), use(), use()));
  EXPECT_EQ(pool.metrics().created, 1u);
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, KeepsOneConnectionForEachCallerThatWaitsBesidesMaxIdle) {
  connection_pool pool(loop_, server_, {.max_open = 3, .max_idle = 0});
  const auto use = [&]() -> task<> {
    auto first = co_await pool.acquire();
    auto second = co_await pool.acquire();
    auto third = co_await pool.acquire();
    const auto give_back = [&]() -> task<> {
      co_await gyre::yield();
      first.give_back();
      second.give_back();
      third.give_back();
    };
    auto both = gyre::when_all(as_expected(pool.acquire()), give_back());
    const auto [fourth, nothing] = co_await std::move(both);
    EXPECT_TRUE(fourth.has_value());
    EXPECT_EQ(pool.metrics().idle, 0u);
  };
  run(use());
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, ANullConnectionIsAnError) {
  const auto connect = []() -> task<std::unique_ptr<tcp_stream>> { co_return nullptr; };
  connection_pool pool(loop_, connect);
  EXPECT_THROW(static_cast<void>(run(pool.acquire())), std::logic_error);
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, OneThatWasMovedFromIsNotOpen) {
  connection_pool pool(loop_, server_);
  const connection_pool taken = std::move(pool);
  EXPECT_EQ(run(as_expected(pool.acquire())).error(), errc::not_open);  // NOLINT: that is tested
  pool.close();
  run(pool.stop());
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, ACallerThatWasStoppedBeforeTakesNothing) {
  connection_pool pool(loop_, server_);
  run(pool.acquire()).give_back();
  gyre::inplace_stop_source stop;
  stop.request_stop();
  auto stopped = gyre::stop_when(pool.acquire(), stop.get_token());
  EXPECT_EQ(run(as_expected(std::move(stopped))).error(), std::errc::operation_canceled);
  EXPECT_EQ(pool.metrics().idle, 1u);
}

TEST_F(ConnectionPool, LimitsTheCallersThatWait) {
  connection_pool pool(loop_, server_, {.max_open = 1, .max_waiting = 1});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    auto waiting = as_expected(gyre::with_timeout(pool.acquire(), 2ms));
    auto refused = as_expected(pool.acquire());
    auto both = gyre::when_all(std::move(waiting), std::move(refused));
    const auto [waited, at_once] = co_await std::move(both);
    EXPECT_EQ(waited.error(), std::errc::timed_out);
    EXPECT_EQ(at_once.error(), errc::waiting_limit);
    connection.give_back();
  };
  run(use());
  EXPECT_TRUE(run(pool.acquire()).is_reused());
}

TEST_F(ConnectionPool, GivesTheErrorOfConnectingAndLosesNoPermit) {
  listener_.close();
  connection_pool pool(loop_, server_, {.max_open = 1});
  for (int i = 0; i < 3; ++i) {
    const auto failed = run(as_expected(pool.acquire()));
    EXPECT_EQ(failed.error(), std::errc::connection_refused);
  }
  EXPECT_EQ(pool.metrics().failed, 3u);
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, StoppedWhileWaitingTakesNothing) {
  connection_pool pool(loop_, server_, {.max_open = 1});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    auto limited = as_expected(gyre::with_timeout(pool.acquire(), 1ms));
    const auto waited = co_await std::move(limited);
    EXPECT_EQ(waited.error(), std::errc::timed_out);
    EXPECT_EQ(pool.metrics().waiting, 0u);
    connection.give_back();
    auto again = co_await pool.acquire();
    EXPECT_TRUE(again.is_reused());
  };
  run(use());
}

TEST_F(ConnectionPool, GivenAndStoppedAtOnceLosesNothing) {
  for (const bool stopped_first : {false, true}) {
    connection_pool pool(loop_, server_, {.max_open = 1, .max_idle = 0});
    const auto use = [&]() -> task<> {
      gyre::inplace_stop_source source;
      auto connection = co_await pool.acquire();
      const auto meet = [&]() -> task<> {
        while (pool.metrics().waiting == 0) co_await gyre::yield();
        if (stopped_first) source.request_stop();
        connection.give_back();
        if (!stopped_first) source.request_stop();
      };
      {
        auto waiting = as_expected(gyre::stop_when(pool.acquire(), source.get_token()));
        auto both = gyre::when_all(std::move(waiting), meet());
        static_cast<void>(co_await std::move(both));
      }
      EXPECT_EQ(pool.metrics().waiting, 0u);
      auto again = co_await pool.acquire();
      EXPECT_TRUE(again->is_open());
    };
    run(use());
    EXPECT_EQ(pool.metrics().idle, 0u);
  }
}

TEST_F(ConnectionPool, DestroyedCallersTakeNothing) {
  int connects = 0;
  const auto connect = [&]() -> task<tcp_stream> {
    if (++connects == 1) co_await gyre::sleep_for(24h);
    co_return co_await gyre::net::connect(server_);
  };
  const auto wait = [](gyre::executor&, connection_pool<>& from) -> gyre::test::droppable {
    static_cast<void>(co_await from.acquire());
    ADD_FAILURE() << "went on";
  };
  connection_pool pool(loop_, connect, {.max_open = 1, .connect_timeout = 48h});
  gyre::executor& here = loop_;
  {
    const gyre::test::droppable connecting = wait(here, pool);
    while (connects == 0) loop_.poll();
  }
  {
    auto connection = run(pool.acquire());
    gyre::test::droppable waiting = wait(here, pool);
    EXPECT_EQ(pool.metrics().waiting, 1u);
    waiting.drop();
    EXPECT_EQ(pool.metrics().waiting, 0u);
  }
  EXPECT_TRUE(run(pool.acquire()).is_reused());
}

TEST_F(ConnectionPool, StoppedWhileConnectingTakesNothing) {
  int connects = 0;
  const auto connect = [&]() -> task<tcp_stream> {
    if (++connects == 1) co_await gyre::sleep_for(24h);
    co_return co_await gyre::net::connect(server_);
  };
  connection_pool pool(loop_, connect, {.max_open = 1, .connect_timeout = 48h});
  const auto stopped = run(as_expected(gyre::with_timeout(pool.acquire(), 1ms)));
  EXPECT_EQ(stopped.error(), std::errc::timed_out);
  EXPECT_FALSE(run(pool.acquire()).is_reused());
  EXPECT_EQ(connects, 2);
}

TEST_F(ConnectionPool, LimitsTheTimeOfAServerThatNeverAnswers) {
  const auto log_in = [](tcp_stream connected) -> task<lines> {
    lines prepared(std::move(connected), delimited("\n"));
    co_await prepared.send("hello");
    static_cast<void>(co_await prepared.next());
    co_return prepared;
  };
  connection_pool pool(loop_, server_, log_in, {.connect_timeout = 3ms});
  const auto acquire = [&]() -> task<std::string> {
    try {
      static_cast<void>(co_await pool.acquire());
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), errc::connect_timeout);
      co_return error.what();
    }
    co_return "";
  };
  EXPECT_THAT(run(acquire()), HasSubstr(server_));
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, PreparesEachConnectionByTheHandshake) {
  int handshakes = 0;
  const auto log_in = [&](tcp_stream connected) -> task<lines> {
    if (++handshakes == 1) throw std::runtime_error("the password is wrong");
    lines prepared(std::move(connected), delimited("\n"));
    co_await prepared.send("hello");
    co_return prepared;
  };
  connection_pool pool(loop_, server_, log_in);
  EXPECT_THROW(static_cast<void>(run(pool.acquire())), std::runtime_error);
  const auto use = [&]() -> task<> {
    static_cast<void>(co_await listener_.accept());
    auto connection = co_await pool.acquire();
    tcp_stream peer = co_await listener_.accept();
    EXPECT_EQ(co_await next_bytes(peer), 6u);
    co_await peer.write_all("welcome\nand more\n");
    const auto line = co_await connection->next();
    EXPECT_EQ(line.value_or(""), "welcome");
    connection.give_back();  // a line is left in its buffer
    auto other = co_await pool.acquire();
    EXPECT_FALSE(other.is_reused());
  };
  run(use());
  EXPECT_EQ(handshakes, 3);
}

TEST_F(ConnectionPool, ClosesAnIdleConnectionWhenItsPeerWould) {
  connection_pool pool(loop_, server_, {.idle_timeout = 24h});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    tcp_stream peer = co_await listener_.accept();
    connection.give_back(0s);
    EXPECT_EQ(pool.metrics().open, 0u);
    EXPECT_EQ(co_await next_bytes(peer), 0u);
    auto second = co_await pool.acquire();
    tcp_stream second_peer = co_await listener_.accept();
    second.give_back(5ms);
    EXPECT_EQ(co_await next_bytes(second_peer), 0u);
    auto third = co_await pool.acquire();
    third.give_back(std::chrono::hours::max());
  };
  run(use());
  EXPECT_EQ(pool.metrics().discarded, 2u);
  EXPECT_EQ(pool.metrics().idle, 1u);
}

TEST_F(ConnectionPool, ClosesIdleConnectionsInTime) {
  connection_pool pool(loop_, server_, {.idle_timeout = 5ms});
  const auto use = [&]() -> task<> {
    auto first = co_await pool.acquire();
    auto second = co_await pool.acquire();
    tcp_stream first_peer = co_await listener_.accept();
    tcp_stream second_peer = co_await listener_.accept();
    first.give_back();
    co_await gyre::sleep_for(3ms);
    second.give_back();
    EXPECT_EQ(co_await next_bytes(first_peer), 0u);
    EXPECT_EQ(pool.metrics().idle, 1u);
    EXPECT_EQ(co_await next_bytes(second_peer), 0u);
    EXPECT_EQ(pool.metrics().open, 0u);
  };
  run(use());
}

// An idle time after which a connection is watched.
constexpr auto watched = 120ms;

TEST_F(ConnectionPool, ClosesAnIdleConnectionSoonAfterTheServer) {
  for (const bool sends_bytes : {false, true}) {
    connection_pool pool(loop_, server_, {.idle_timeout = 24h, .max_lifetime = 240h});
    const auto use = [&]() -> task<> {
      auto first = co_await pool.acquire();
      auto second = co_await pool.acquire();
      tcp_stream first_peer = co_await listener_.accept();
      tcp_stream second_peer = co_await listener_.accept();
      first.give_back();
      second.give_back();
      co_await gyre::sleep_for(watched);
      const gyre::steady_time begin = loop_.now();
      if (sends_bytes) {
        co_await first_peer.write_all("go away");
      } else {
        first_peer.shutdown(gyre::net::shutdown_side::send);
      }
      auto receiving = as_expected(next_bytes(first_peer));
      const auto end = co_await std::move(receiving);  // a reset if the bytes were not read
      EXPECT_EQ(end.value_or(0), 0u);
      EXPECT_LT(loop_.now() - begin, 10s);
      EXPECT_EQ(pool.metrics().idle, 1u);
      EXPECT_EQ(pool.metrics().open, 1u);
      auto rest = co_await pool.acquire();
      EXPECT_TRUE(rest.is_reused());
      co_await rest->write_all("hello");
      EXPECT_EQ(co_await next_bytes(second_peer), 5u);
      rest.give_back();
    };
    run(use());
    EXPECT_EQ(pool.metrics().discarded, 1u);
  }
}

TEST_F(ConnectionPool, AWatchedConnectionIsUsedAndWatchedAgain) {
  connection_pool pool(loop_, server_, {.idle_timeout = 24h, .max_lifetime = 240h});
  const auto use = [&]() -> task<> {
    std::optional<tcp_stream> peer;
    for (int i = 0; i < 5; ++i) {
      auto connection = co_await pool.acquire();
      EXPECT_EQ(connection.is_reused(), i != 0);
      if (!peer) peer.emplace(co_await listener_.accept());
      co_await connection->write_all("question");
      EXPECT_EQ(co_await next_bytes(*peer), 8u);
      co_await peer->write_all("answer");
      EXPECT_EQ(co_await next_bytes(*connection), 6u);
      connection.give_back();
      co_await gyre::sleep_for(i % 2 == 0 ? watched : 10ms);
    }
    peer->close();
    while (pool.metrics().open != 0) co_await gyre::sleep_for(1ms);
  };
  run(use());
  EXPECT_EQ(pool.metrics().created, 1u);
}

TEST_F(ConnectionPool, MayBeClosedWhileItWatches) {
  for (const bool destroys : {false, true}) {
    std::optional<connection_pool<>> pool(std::in_place, loop_, server_);
    const auto use = [&]() -> task<> {
      auto connection = co_await pool->acquire();
      tcp_stream peer = co_await listener_.accept();
      connection.give_back();
      co_await gyre::sleep_for(watched);
      destroys ? pool.reset() : pool->close();
      EXPECT_EQ(co_await next_bytes(peer), 0u);
    };
    run(use());
  }
}

// Connections of a class without wait_readable() are checked when they are taken.
TEST_F(ConnectionPool, WatchesOnlyConnectionsThatCanWait) {
  struct plain {
    tcp_stream stream;
    bool is_reusable() const { return stream.is_quiet(); }
  };
  const auto connect = [&]() -> task<std::unique_ptr<plain>> {
    auto connecting = gyre::net::connect(listener_.local_endpoint());
    tcp_stream made = co_await std::move(connecting);
    co_return std::make_unique<plain>(std::move(made));
  };
  connection_pool<plain> pool(loop_, connect, {.idle_timeout = 24h});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    static_cast<void>(*connection);
    tcp_stream peer = co_await listener_.accept();
    connection.give_back();
    co_await gyre::sleep_for(watched);
    peer.close();
    co_await gyre::sleep_for(watched);
    EXPECT_EQ(pool.metrics().open, 1u);
    auto other = co_await pool.acquire();
    EXPECT_FALSE(other.is_reused());
  };
  run(use());
}

TEST_F(ConnectionPool, UsesNoConnectionBeyondItsLifetime) {
  connection_pool pool(loop_, server_, {.max_lifetime = 5ms});
  const auto use = [&]() -> task<> {
    auto held = co_await pool.acquire();
    co_await gyre::sleep_for(6ms);
    held.give_back();
    EXPECT_EQ(pool.metrics().discarded, 1u);
    auto idle = co_await pool.acquire();
    idle.give_back();
    co_await gyre::sleep_for(6ms);
    EXPECT_EQ(pool.metrics().discarded, 2u);
  };
  run(use());
}

TEST_F(ConnectionPool, CloseEndsWaitsAndClosesWhatIsGivenBack) {
  connection_pool pool(loop_, server_, {.max_open = 1});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    const auto close = [&]() -> task<> {
      while (pool.metrics().waiting == 0) co_await gyre::yield();
      pool.close();
    };
    auto both = gyre::when_all(as_expected(pool.acquire()), close());
    auto waited = co_await std::move(both);
    EXPECT_EQ(std::get<0>(waited).error(), errc::closed);
    auto later = as_expected(pool.acquire());
    const auto refused = co_await std::move(later);
    EXPECT_EQ(refused.error(), errc::not_open);
    co_await connection->write_all("still open");
    connection.give_back();
  };
  run(use());
  EXPECT_EQ(pool.metrics().open, 0u);
}

TEST_F(ConnectionPool, CloseEndsAConnectThatIsUnderWay) {
  const auto connect = []() -> task<tcp_stream> {
    co_await gyre::sleep_for(24h);
    co_return tcp_stream();
  };
  connection_pool pool(loop_, connect, {.connect_timeout = 48h});
  const auto close = [&]() -> task<> {
    co_await gyre::yield();
    pool.close();
  };
  auto both = gyre::when_all(as_expected(pool.acquire()), close());
  EXPECT_EQ(std::get<0>(run(std::move(both))).error(), errc::closed);
}

TEST_F(ConnectionPool, ConnectionsMayOutliveThePool) {
  auto pool = std::make_unique<connection_pool<>>(loop_, server_);
  pooled_connection<tcp_stream> connection = run(pool->acquire());
  pool.reset();
  const auto use = [&]() -> task<> {
    tcp_stream peer = co_await listener_.accept();
    co_await connection->write_all("hello");
    EXPECT_EQ(co_await next_bytes(peer), 5u);
    connection.give_back();
    EXPECT_EQ(co_await next_bytes(peer), 0u);
  };
  run(use());
}

TEST_F(ConnectionPool, StopWaitsForTakenConnections) {
  connection_pool pool(loop_, server_, {.max_open = 2});
  bool stopped = false;
  const auto hold = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    co_await gyre::sleep_for(1ms);
    EXPECT_FALSE(stopped);
    co_await connection->write_all("x");
    connection.give_back();
  };
  const auto stop = [&]() -> task<> {
    while (pool.metrics().open == 0) co_await gyre::yield();
    co_await pool.stop();
    stopped = true;
  };
  run(gyre::when_all(hold(), stop()));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(pool.metrics().open, 0u);
  run(pool.stop());  // again
}

TEST_F(ConnectionPool, DetachMakesRoomForAnotherConnection) {
  connection_pool pool(loop_, server_, {.max_open = 1});
  const auto use = [&]() -> task<> {
    auto connection = co_await pool.acquire();
    const std::unique_ptr<tcp_stream> detached = connection.detach();
    EXPECT_TRUE(detached->is_open());
    EXPECT_EQ(pool.metrics().open, 0u);
    auto other = co_await pool.acquire();
    EXPECT_TRUE(other->is_open());
    EXPECT_EQ(connection.detach(), nullptr);
  };
  run(use());
}

TEST_F(ConnectionPool, MovedConnectionsKeepTheirPlaces) {
  connection_pool pool(loop_, server_, {.max_open = 2});
  auto first = run(pool.acquire());
  auto second = run(pool.acquire());
  first->close();
  first = std::move(second);
  EXPECT_EQ(pool.metrics().open, 1u);
  EXPECT_TRUE(first.has_connection());
  second = run(pool.acquire());
  EXPECT_EQ(pool.metrics().open, 2u);
}

/// A connection of one's own, which cannot be moved.
class counted_uses {
 public:
  explicit counted_uses(gyre::net::unix_stream connected) : stream_(std::move(connected)) {}
  counted_uses& operator=(counted_uses&&) = delete;

  void use() { ++uses_; }
  bool is_reusable() const { return stream_.is_open() && uses_ < 2; }

 private:
  gyre::net::unix_stream stream_;
  int uses_ = 0;
};

TEST_F(ConnectionPool, KeepsConnectionsOfAnyTypeThatTellsWhetherItIsReusable) {
  std::vector<gyre::net::unix_stream> peers;
  const auto connect = [&]() -> task<std::unique_ptr<counted_uses>> {
    auto [here, there] = gyre::net::stream_pair(loop_);
    peers.push_back(std::move(there));
    co_return std::make_unique<counted_uses>(std::move(here));
  };
  connection_pool pool(loop_, connect);
  static_assert(std::same_as<decltype(pool), connection_pool<counted_uses>>);
  for (int i = 0; i < 5; ++i) {
    auto connection = run(pool.acquire());
    connection->use();
    connection.give_back();
  }
  EXPECT_EQ(pool.metrics().created, 3u);
}

TEST_F(ConnectionPool, BelongsToItsLoop) {
  connection_pool pool(loop_, server_);
  EXPECT_EQ(gyre::sync_wait(as_expected(pool.acquire())).error(), errc::wrong_thread);
  gyre::loop other;
  EXPECT_EQ(gyre::sync_wait(other, as_expected(pool.acquire())).error(), errc::wrong_thread);
}

TEST_F(ConnectionPool, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(connection_pool(loop_, server_, {.max_open = 0}), std::invalid_argument);
  EXPECT_THROW(connection_pool(loop_, server_, {.idle_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(connection_pool(loop_, server_, {.max_lifetime = -1s}), std::invalid_argument);
  EXPECT_THROW(connection_pool(loop_, server_, {.connect_timeout = 0s}), std::invalid_argument);
  EXPECT_THROW(connection_pool(loop_, server_, {.connecting = {.attempt_delay = -1ms}}),
               std::invalid_argument);
  EXPECT_THROW(connection_pool(loop_, server_, {.connecting = {.resolution_delay = -1ms}}),
               std::invalid_argument);
  EXPECT_THROW(connection_pool(loop_, "no port"), std::system_error);
  EXPECT_THROW(connection_pool(loop_, "unix:/tmp/x"), std::invalid_argument);
}

/// Asks 20 times through a pool; some connections are lost on the way.
task<int> ask_repeatedly(connection_pool<>& pool) {
  int answers = 0;
  for (int i = 0; i < 20; ++i) {
    auto connection = co_await pool.acquire();
    EXPECT_LE(pool.metrics().open, 4u);
    co_await connection->write_all("ping");
    std::array<std::byte, 4> answer;
    answers += static_cast<int>(co_await connection->read_exactly(answer)) / 4;
    if (i % 7 != 3) connection.give_back();
  }
  co_return answers;
}

task<int> ask_by_many(connection_pool<>& pool) {
  std::vector<task<int>> users;
  users.reserve(20);
  for (int i = 0; i < 20; ++i) users.push_back(ask_repeatedly(pool));
  int sum = 0;
  for (const int each : co_await gyre::when_all(std::move(users))) sum += each;
  co_return sum;
}

TEST(ConnectionPoolOfLoops, EachLoopHasAPoolOfItsOwn) {
  gyre::loop_thread server_thread;
  gyre::net::tcp_server server(server_thread);
  server.on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
    from.send(in.bytes());
    in.consume_all();
  });
  server.listen(any_port);
  server.start();
  gyre::loop_pool loops(2);
  gyre::sharded<connection_pool<>> pools(loops);
  gyre::sync_wait(
      pools.start(server.local_endpoint(), gyre::net::connection_pool_options{.max_open = 4}));
  EXPECT_EQ(gyre::sync_wait(pools.map_reduce(&ask_by_many, 0)), 2 * 20 * 20);
  gyre::sync_wait(pools.stop());
}

}  // namespace
}  // namespace connection_pool_test
