// SPDX-License-Identifier: Apache-2.0
// The programs of docs/guide/using-a-c-library.md, and the example of io/borrowed_descriptor.hpp.
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/io/blocking.hpp>
#include <gyre/io/borrowed_descriptor.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>
#include <tests/support/postgres_server.hpp>

#include <gtest/gtest.h>

#include <libpq-fe.h>

#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace c_library_guide_test {
namespace {

using namespace std::chrono_literals;

// clang-format off
struct connection_end {
  void operator()(PGconn* connection) const noexcept { ::PQfinish(connection); }
};
struct result_end {
  void operator()(PGresult* result) const noexcept { ::PQclear(result); }
};
using connection_ptr = std::unique_ptr<PGconn, connection_end>;
using result_ptr = std::unique_ptr<PGresult, result_end>;

std::runtime_error failure_of(const PGconn* connection) {
  return std::runtime_error(::PQerrorMessage(connection));
}
// clang-format on

// clang-format off
gyre::task<connection_ptr> connect(gyre::event_loop& loop, std::string settings) {
  connection_ptr connection(::PQconnectStart(settings.c_str()));
  if (connection == nullptr) throw std::bad_alloc();
  auto next = PGRES_POLLING_WRITING;
  if (::PQstatus(connection.get()) == CONNECTION_BAD) next = PGRES_POLLING_FAILED;
  while (next != PGRES_POLLING_OK) {
    if (next == PGRES_POLLING_FAILED) throw failure_of(connection.get());
    // Made anew each time, because libpq may have closed its socket and opened another one.
    gyre::io::borrowed_descriptor socket(loop, ::PQsocket(connection.get()));
    const bool reads = next == PGRES_POLLING_READING;
    co_await socket.wait(reads ? gyre::readiness::readable : gyre::readiness::writable);
    next = ::PQconnectPoll(connection.get());
  }
  ::PQsetnonblocking(connection.get(), 1);
  co_return connection;
}
// clang-format on

// clang-format off
gyre::task<> send(gyre::event_loop& loop, PGconn* connection, const std::string& sql) {
  gyre::io::borrowed_descriptor socket(loop, ::PQsocket(connection));
  if (::PQsendQuery(connection, sql.c_str()) == 0) throw failure_of(connection);
  for (;;) {
    const int unsent = ::PQflush(connection);
    if (unsent == 0) co_return;
    if (unsent < 0) throw failure_of(connection);
    // libpq must read while it writes: the server may wait until its own output is read.
    using enum gyre::readiness;
    const gyre::readiness events = co_await socket.wait(readable | writable);
    if (contains(events, readable) && ::PQconsumeInput(connection) == 0) {
      throw failure_of(connection);
    }
  }
}
// clang-format on

// gyre/io/borrowed_descriptor.hpp
gyre::task<> receive(gyre::event_loop& loop, PGconn* connection) {
  // clang-format off
  gyre::io::borrowed_descriptor socket(loop, ::PQsocket(connection));
  while (::PQisBusy(connection) != 0) {
    co_await socket.wait_readable();
    if (::PQconsumeInput(connection) == 0) throw failure_of(connection);
  }
  // clang-format on
}

// clang-format off
gyre::task<result_ptr> read_result(gyre::event_loop& loop, PGconn* connection) {
  result_ptr last;
  for (;;) {
    gyre::io::borrowed_descriptor socket(loop, ::PQsocket(connection));
    while (::PQisBusy(connection) != 0) {
      co_await socket.wait_readable();
      if (::PQconsumeInput(connection) == 0) throw failure_of(connection);
    }
    result_ptr next(::PQgetResult(connection));
    if (next == nullptr) co_return last;
    last = std::move(next);
  }
}

gyre::task<result_ptr> query(gyre::event_loop& loop, PGconn* connection, std::string sql) {
  co_await send(loop, connection, sql);
  co_return co_await read_result(loop, connection);
}
// clang-format on

// clang-format off
std::string cancel(PGconn* connection) {  // blocks: connects to the server once more
  std::array<char, 256> error{};
  PGcancel* const request = ::PQgetCancel(connection);
  const int sent = ::PQcancel(request, error.data(), error.size());
  ::PQfreeCancel(request);
  return sent == 1 ? "" : error.data();
}

gyre::task<result_ptr> query_within(gyre::event_loop& loop, PGconn* connection, std::string sql,
                                    std::chrono::milliseconds limit) {
  auto querying = gyre::as_expected(gyre::with_timeout(query(loop, connection, sql), limit));
  auto result = co_await std::move(querying);
  // If the query is still in progress, it is cancelled and its end is read, so that the connection
  // can be used again. A request that overtakes the query has no effect, and is repeated.
  while (!result) {
    const std::string error = co_await gyre::io::blocking(cancel, connection);
    if (!error.empty()) throw std::runtime_error("PQcancel: " + error);
    auto reading = gyre::as_expected(gyre::with_timeout(read_result(loop, connection), 1s));
    result = co_await std::move(reading);
  }
  co_return *std::move(result);
}
// clang-format on

// clang-format off
gyre::task<std::string> next_notification(gyre::event_loop& loop, PGconn* connection) {
  gyre::io::borrowed_descriptor socket(loop, ::PQsocket(connection));
  for (;;) {
    if (PGnotify* const notification = ::PQnotifies(connection)) {
      std::string text = notification->extra;
      ::PQfreemem(notification);
      co_return text;
    }
    co_await socket.wait_readable();
    if (::PQconsumeInput(connection) == 0) throw failure_of(connection);
  }
}
// clang-format on

class CLibraryGuide : public testing::Test {
 protected:
  std::string settings() const {
    return "host=" + server.folder() + " user=" + gyre::test::postgres_server::user() +
           " dbname=" + gyre::test::postgres_server::database();
  }
  connection_ptr connected() { return gyre::sync_wait(loop, connect(loop, settings())); }
  static std::string_view text_of(const result_ptr& result) {
    if (::PQresultStatus(result.get()) == PGRES_TUPLES_OK) {
      return ::PQgetvalue(result.get(), 0, 0);
    }
    return ::PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
  }

  gyre::loop loop;
  gyre::test::postgres_server server{loop};
};

TEST_F(CLibraryGuide, QueriesRunAtTheSameTime) {
  const connection_ptr one = connected();
  const connection_ptr other = connected();
  // The first query waits for a lock that only the second one releases.
  gyre::sync_wait(loop, query(loop, other.get(), "select pg_advisory_lock(1)"));
  const auto [first, second] = gyre::sync_wait(
      loop, gyre::when_all(query(loop, one.get(), "select pg_advisory_lock(1)::text || 'locked'"),
                           query(loop, other.get(), "select pg_advisory_unlock(1)")));
  EXPECT_EQ(text_of(first), "locked");
  EXPECT_EQ(text_of(second), "t");
}

TEST_F(CLibraryGuide, LongResultsAreRead) {
  const connection_ptr connection = connected();
  const std::string sql = "select repeat('x', 10000000)";
  EXPECT_EQ(text_of(gyre::sync_wait(loop, query(loop, connection.get(), sql))).size(), 10'000'000U);
}

TEST_F(CLibraryGuide, LongStatementsAreSentWhileResultsAreRead) {
  const connection_ptr connection = connected();
  const std::string sql = "select length('" + std::string(20'000'000, 'x') + "')";
  EXPECT_EQ(text_of(gyre::sync_wait(loop, query(loop, connection.get(), sql))), "20000000");
}

TEST_F(CLibraryGuide, AServerThatIsNotThereIsAnError) {
  EXPECT_THROW(gyre::sync_wait(loop, connect(loop, "host=/nowhere user=nobody")),
               std::runtime_error);
}

TEST_F(CLibraryGuide, ATimeLimitCancelsTheQuery) {
  const connection_ptr connection = connected();
  const result_ptr cancelled =
      gyre::sync_wait(loop, query_within(loop, connection.get(), "select pg_sleep(3600)", 10ms));
  EXPECT_EQ(text_of(cancelled), "57014");
  EXPECT_EQ(text_of(gyre::sync_wait(loop, query(loop, connection.get(), "select 7"))), "7");
}

TEST_F(CLibraryGuide, NotificationsWakeTheCoroutine) {
  const connection_ptr listener = connected();
  const connection_ptr sender = connected();
  gyre::sync_wait(loop, query(loop, listener.get(), "listen news"));
  auto waiting = gyre::spawn_joinable(loop, next_notification(loop, listener.get()));
  gyre::sync_wait(loop, query(loop, sender.get(), "notify news, 'it rains'"));
  EXPECT_EQ(gyre::sync_wait(loop, waiting.join()), "it rains");
}

TEST_F(CLibraryGuide, TheExampleOfTheHeaderReadsAResult) {
  const connection_ptr connection = connected();
  gyre::sync_wait(loop, send(loop, connection.get(), "select 5"));
  gyre::sync_wait(loop, receive(loop, connection.get()));
  const result_ptr result(::PQgetResult(connection.get()));
  EXPECT_EQ(text_of(result), "5");
}

}  // namespace
}  // namespace c_library_guide_test
