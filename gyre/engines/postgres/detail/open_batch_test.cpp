// SPDX-License-Identifier: Apache-2.0
// Tests of a connection while a batch without its Sync is the last request.
#include <gyre/engines/postgres/detail/connection_core.hpp>

#include <gyre/engines/postgres/error.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/tcp_listener.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/when_all.hpp>
#include <tests/support/failed_call.hpp>
#include <tests/support/postgres_peer.hpp>
#include <tests/support/postgres_requests.hpp>
#include <tests/support/postgres_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace open_batch_test {
namespace {

using namespace std::chrono_literals;
using gyre::task;
using gyre::postgres::errc;
using gyre::postgres::detail::connection_core;
using gyre::postgres::detail::message_writer;
using gyre::test::admit;
using gyre::test::make_core;
using gyre::test::run_statement;
using gyre::test::sent_request;
using gyre::test::calls::error_of;
using testing::ElementsAre;

task<> wait_for(sent_request& request) {
  co_await request.wait();
  static_cast<void>(request.result());
}

// The messages of a statement without parameters.
gyre::io::buffer execution(std::string_view text) {
  gyre::io::buffer bytes;
  message_writer writer(bytes);
  writer.parse({}, text);
  writer.bind_unnamed();
  writer.execute({}, 0);
  return bytes;
}

struct OpenBatch : testing::Test {
  gyre::loop loop;

  void run(task<> test) { gyre::sync_wait(loop, std::move(test)); }
};

struct OpenBatchOfServer : OpenBatch {
  gyre::test::postgres_server server{loop};

  // On a slow machine the usual time limits end the connection, and with it its statements.
  std::shared_ptr<connection_core> make_patient_core() {
    gyre::postgres::detail::connection_options options{.is_shared = false};
    options.connect_timeout = options.ping_timeout = options.cancel_timeout = 10min;
    return make_core(loop, server.address(), options);
  }
};

TEST_F(OpenBatchOfServer, AdmitsNothingUntilItsSync) {
  run([](OpenBatchOfServer& test) -> task<> {
    const auto core = test.make_patient_core();
    co_await admit(core);
    // An unwanted request before it fences the connection, too, and must not lift its fence.
    std::optional<sent_request> unwanted(core);
    core->query(*unwanted, "select pg_sleep(0.1)");
    co_await admit(core);
    sent_request batch(core);
    core->begin_batch(batch, std::vector<std::string_view>{"select 1"});
    unwanted.reset();
    core->append_to_batch(batch, execution("select 7").bytes());
    EXPECT_FALSE(core->try_admit());
    while (core->in_flight() > 1) {
      auto turn = gyre::as_result(core->writable());
      static_cast<void>(co_await std::move(turn));
      co_await gyre::yield();
    }
    EXPECT_FALSE(core->is_fenced());
    EXPECT_FALSE(core->try_admit());
    core->end_batch(batch);
    EXPECT_TRUE(core->try_admit());
    core->cancel_admission();
    co_await wait_for(batch);
    EXPECT_THAT(batch.result().rows, ElementsAre(ElementsAre("7")));
    EXPECT_EQ(core->connection_number(), 1U);
  }(*this));
}

TEST_F(OpenBatchOfServer, FailsWhenItIsAbandoned) {
  run([](OpenBatchOfServer& test) -> task<> {
    const auto core = test.make_patient_core();
    co_await run_statement(core, "create table item (id int)");
    for (const bool is_abandoned : {false, true}) {
      co_await admit(core);
      {
        sent_request batch(core);
        core->begin_batch(batch, {});
        core->append_to_batch(batch, execution("insert into item values (1)").bytes());
        if (!is_abandoned) {
          core->fail_batch(batch);
          EXPECT_EQ(co_await error_of(wait_for(batch)), errc::invalid_statement_name);
        }
      }
      const auto count = co_await run_statement(core, "select count(*)::text from item");
      EXPECT_THAT(count.rows, ElementsAre(ElementsAre("0")));
    }
    // The calls have no effect on a batch that has ended.
    co_await admit(core);
    sent_request batch(core);
    core->begin_batch(batch, {});
    core->end_batch(batch);
    core->append_to_batch(batch, execution("insert into item values (1)").bytes());
    core->end_batch(batch);
    core->fail_batch(batch);
    co_await wait_for(batch);
    const auto count = co_await run_statement(core, "select count(*)::text from item");
    EXPECT_THAT(count.rows, ElementsAre(ElementsAre("0")));
    EXPECT_EQ(core->connection_number(), 1U);
  }(*this));
}

// A peer that ends the reply before the Sync would make later replies go to the wrong callers.
TEST_F(OpenBatch, EndsTheConnectionIfTheReplyEndsBeforeItsSync) {
  run([](OpenBatch& test) -> task<> {
    gyre::net::tcp_listener listener(test.loop,
                                     gyre::net::endpoint(gyre::net::ip_address::loopback_v4(), 0));
    const auto core = make_core(test.loop, listener.local_endpoint().to_string());
    auto serving = [](gyre::net::tcp_listener& peers) -> task<> {
      gyre::net::tcp_stream peer = co_await peers.accept();
      for (const std::string& each : {gyre::test::login_bytes(), gyre::test::ready_bytes()}) {
        const auto request = co_await peer.receive();
        if (request.empty()) co_return;
        co_await peer.write_all(each);
      }
      for (;;) {
        const auto rest = co_await gyre::as_result(peer.receive());
        if (!rest || rest->empty()) co_return;
      }
    };
    auto sending = [](const std::shared_ptr<connection_core>& used) -> task<> {
      co_await admit(used);
      sent_request batch(used);
      used->begin_batch(batch, {});
      used->append_to_batch(batch, execution("select 1").bytes());
      EXPECT_EQ(co_await error_of(wait_for(batch)), errc::bad_message);
      used->end_batch(batch);  // has no effect
      used->close();
    };
    auto both = gyre::when_all(serving(listener), sending(core));
    co_await std::move(both);
  }(*this));
}

}  // namespace
}  // namespace open_batch_test
