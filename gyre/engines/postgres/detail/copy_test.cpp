// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/io_in_virtual_time.hpp>
#include <tests/support/pass_time.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/postgres_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace copy_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::connection_options;
using gyre::test::io_in_virtual_time;
using gyre::test::make_core;
using gyre::test::pass_time;
using gyre::test::postgres_server;
using gyre::test::run_script;
using gyre::test::run_statement;
using gyre::test::sent_request;
using gyre::test::statement_result;
using gyre::test::calls::error_of;
using gyre::test::calls::message_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class copy_in_request final : public sent_request {
 public:
  using sent_request::sent_request;
  bool is_copy_in() const noexcept override { return true; }
  void on_copy_in() noexcept override { begun.set(); }
  void on_ready(gyre::postgres::detail::transaction_status status) noexcept override {
    sent_request::on_ready(status);
    begun.set();
  }
  void on_lost(const std::exception_ptr& error, bool was_sent) noexcept override {
    sent_request::on_lost(error, was_sent);
    begun.set();
  }

  gyre::manual_reset_event begun;
};

// Pauses reading after each message, until resume().
class copy_out_request final : public sent_request {
 public:
  using sent_request::sent_request;
  void on_copy_out() noexcept override { ++begins; }
  void on_copy_data(std::span<const std::byte> bytes) noexcept override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ++messages;
    if (pauses) core().pause_reading();
    arrival.set();
  }
  void on_copy_done() noexcept override { ++ends; }

  bool pauses = false;
  std::string text;
  std::size_t messages = 0;
  int begins = 0;
  int ends = 0;
  gyre::auto_reset_event arrival;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The outcome of a request that has ended.
task<statement_result> outcome_of(sent_request& request) {
  co_await request.wait();
  co_return request.result();
}

struct PostgresWireCopy : testing::Test {
  gyre::loop loop;
  postgres_server server{loop};
  std::shared_ptr<connection_core> core =
      make_core(loop, server.address(), {.is_shared = false, .reconnects = false});

  void run(task<> test) {
    gyre::sync_wait(loop, run_script(core, "create table t (n int)"));
    gyre::sync_wait(loop, std::move(test));
  }
  // Runs a test of time limits on a loop of its own, which outlives its connections.
  void run_in_virtual_time(task<> (*test)(PostgresWireCopy&, io_in_virtual_time&)) {
    gyre::sync_wait(loop, run_script(core, "create table t (n int)"));
    io_in_virtual_time time;
    gyre::sync_wait(time.loop, test(*this, time));
  }
  // A COPY whose data the server waits for.
  static task<> begin(copy_in_request& request, connection_core& core) {
    if (!core.try_admit()) throw std::logic_error("not admitted");
    core.query(request, "copy t from stdin");
    co_await request.begun.wait();
  }
};

TEST_F(PostgresWireCopy, SendsData) {
  run([](PostgresWireCopy& test) -> task<> {
    copy_in_request request(test.core);
    co_await begin(request, *test.core);
    std::string rows;
    for (int each = 0; each < 1000; ++each) rows.append(std::to_string(each)).append("\n");
    for (int part = 0; part < 1000; ++part) {
      test.core->copy_data(bytes_of(rows));
      co_await test.core->writable();
    }
    test.core->copy_done();
    const auto result = co_await outcome_of(request);
    EXPECT_EQ(result.tag, "COPY 1000000");
    const auto sum = co_await run_statement(test.core, "select count(*), sum(n) from t");
    EXPECT_THAT(sum.rows, ElementsAre(ElementsAre("1000000", "499500000")));
  }(*this));
}

TEST_F(PostgresWireCopy, IsBoundedByTheServer) {
  run([](PostgresWireCopy& test) -> task<> {
    copy_in_request request(test.core);
    co_await begin(request, *test.core);
    test.server.pause();
    const std::string row = std::string(65'535, '0') + "\n";
    std::size_t sent = 0;
    auto write_on = [](PostgresWireCopy& fixture, const std::string& part,
                       std::size_t& count) -> task<> {
      for (; count < 1000; ++count) {
        fixture.core->copy_data(bytes_of(part));
        co_await fixture.core->writable();
      }
    };
    auto resume_later = [](PostgresWireCopy& fixture, std::size_t& count) -> task<> {
      for (std::size_t last = 0; last != count || count == 0;) {
        last = count;
        co_await gyre::sleep_for(20ms);
      }
      EXPECT_LT(count, 100U);
      fixture.server.resume();
    };
    auto both = gyre::when_all(write_on(test, row, sent), resume_later(test, sent));
    co_await std::move(both);
    test.core->copy_fail("enough");
    const std::string text = co_await message_of(outcome_of(request));
    EXPECT_THAT(text, testing::AnyOf(HasSubstr("enough"), HasSubstr("out of range")));
  }(*this));
}

TEST_F(PostgresWireCopy, FailsForWrongData) {
  run([](PostgresWireCopy& test) -> task<> {
    copy_in_request request(test.core);
    co_await begin(request, *test.core);
    test.core->copy_data(bytes_of("1\nx\n"));
    EXPECT_EQ(co_await error_of(outcome_of(request)), errc::invalid_text);
    test.core->copy_data(bytes_of("2\n"));  // no effect
    test.core->copy_done();
    const auto none = co_await run_statement(test.core, "select * from t");
    EXPECT_THAT(none.rows, SizeIs(0));
  }(*this));
}

TEST_F(PostgresWireCopy, FailsIfItIsAbandoned) {
  run([](PostgresWireCopy& test) -> task<> {
    {
      copy_in_request request(test.core);
      co_await begin(request, *test.core);
      test.core->copy_data(bytes_of("1\n"));
    }
    const auto none = co_await run_statement(test.core, "select * from t");
    EXPECT_THAT(none.rows, SizeIs(0));
  }(*this));
}

TEST_F(PostgresWireCopy, FailsForAMissingTable) {
  run([](PostgresWireCopy& test) -> task<> {
    copy_in_request request(test.core);
    co_await gyre::test::admit(test.core);
    test.core->query(request, "copy missing from stdin");
    co_await request.begun.wait();
    EXPECT_EQ(co_await error_of(outcome_of(request)), errc::undefined_table);
  }(*this));
}

TEST_F(PostgresWireCopy, MayTakeItsTime) {
  run_in_virtual_time([](PostgresWireCopy& test, io_in_virtual_time& time) -> task<> {
    const connection_options options{
        .is_shared = false, .reconnects = false, .reply_timeout = 4s, .ping_interval = 10ms};
    const auto hasty = make_core(time.loop, test.server.address(), options);
    co_await run_script(hasty, "select 1");
    copy_in_request request(hasty);
    co_await begin(request, *hasty);
    co_await pass_time(time, 60s);
    hasty->copy_data(bytes_of("1\n"));
    hasty->copy_done();
    const auto result = co_await outcome_of(request);
    EXPECT_EQ(result.tag, "COPY 1");
  });
}

TEST_F(PostgresWireCopy, EndsAConnectionThatIsNoPlaceForIt) {
  run([](PostgresWireCopy& test) -> task<> {
    const auto shared = make_core(test.loop, test.server.address());
    const std::string copy = "copy t from stdin";
    EXPECT_THAT(co_await message_of(run_statement(shared, copy)), HasSubstr("COPY"));
    EXPECT_THAT(co_await message_of(run_script(shared, copy)), HasSubstr("COPY"));
    // Statements of others behind it would be swallowed.
    co_await run_statement(shared, "select 1");
    copy_in_request request(shared);
    co_await gyre::test::admit(shared);
    shared->query(request, copy);
    auto both = gyre::when_all(error_of(outcome_of(request)),
                               error_of(run_script(shared, "insert into t values (1)")));
    const auto [first, second] = co_await std::move(both);
    EXPECT_EQ(first, errc::connection_lost);
    EXPECT_EQ(second, errc::connection_lost);
    const auto one = co_await run_statement(shared, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
  }(*this));
}

TEST_F(PostgresWireCopy, ReceivesData) {
  run([](PostgresWireCopy& test) -> task<> {
    copy_out_request request(test.core);
    co_await gyre::test::admit(test.core);
    test.core->query(request, "copy (select generate_series(1, 3)) to stdout");
    const auto result = co_await outcome_of(request);
    EXPECT_EQ(result.tag, "COPY 3");
    EXPECT_EQ(request.text, "1\n2\n3\n");
    EXPECT_EQ(request.begins, 1);
    EXPECT_EQ(request.ends, 1);
  }(*this));
}

TEST_F(PostgresWireCopy, HoldsTheServerBack) {
  run_in_virtual_time([](PostgresWireCopy& test, io_in_virtual_time& time) -> task<> {
    const connection_options options{.reply_timeout = 4s, .ping_interval = 10ms};
    const auto hasty = make_core(time.loop, test.server.address(), options);
    copy_out_request request(hasty);
    request.pauses = true;
    co_await gyre::test::admit(hasty);
    hasty->query(request, "copy (select generate_series(1, 200)) to stdout");
    for (std::size_t each = 1; each <= 200; ++each) {
      co_await request.arrival.wait();
      EXPECT_EQ(request.messages, each);
      if (each == 100) co_await pass_time(time, 60s);
      EXPECT_EQ(request.messages, each);
      hasty->resume_reading();
    }
    const auto result = co_await outcome_of(request);
    EXPECT_EQ(result.tag, "COPY 200");
    EXPECT_EQ(hasty->connection_number(), 1U);
  });
}

TEST_F(PostgresWireCopy, DropsTheDataOfAnAbandonedRequest) {
  run([](PostgresWireCopy& test) -> task<> {
    {
      copy_out_request request(test.core);
      request.pauses = true;
      co_await gyre::test::admit(test.core);
      test.core->query(request, "copy (select generate_series(1, 1000000)) to stdout");
      co_await request.arrival.wait();
    }
    const auto one = co_await run_statement(test.core, "select 1");
    EXPECT_THAT(one.rows, SizeIs(1));
  }(*this));
}

TEST_F(PostgresWireCopy, DropsTheDataOfAnOrdinaryStatement) {
  run([](PostgresWireCopy& test) -> task<> {
    const auto result = co_await run_statement(test.core, "copy (select 1) to stdout");
    EXPECT_EQ(result.tag, "COPY 1");
    EXPECT_THAT(result.rows, SizeIs(0));
  }(*this));
}

}  // namespace
}  // namespace copy_test
