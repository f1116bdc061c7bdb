// SPDX-License-Identifier: Apache-2.0
// The requests of a client in the flight recorder.
#include <gyre/engines/nats/client.hpp>

#include <gyre/engines/nats/client_test_support.hpp>
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/trace/dump.hpp>
#include <tests/support/nats_server.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <utility>

namespace nats_client_trace_test {
namespace {

using namespace nats_test;
using namespace std::chrono_literals;
using gyre::task;
using testing::HasSubstr;

task<> reply_late(client& bus, subscription requests) {
  const std::optional<message> request = co_await requests.next();
  co_await gyre::sleep_for(20ms);
  co_await bus.publish(request.value().reply(), "done");
}

TEST(NatsClientTrace, NamesTheSubjectOfARequestThatTakesLong) {
  gyre::loop loop;
  gyre::test::nats_server server(loop);
  gyre::sync_wait(loop, [](client bus) -> task<> {
    subscription requests = bus.subscribe("reports.yearly");
    co_await gyre::with_scope([&](gyre::scope& replying) -> task<> {
      replying.spawn(reply_late(bus, std::move(requests)));
      task<message> asking = bus.request("reports.yearly", "2026");
      const message reply = co_await std::move(asking);
      EXPECT_EQ(reply.text(), "done");
    });
  }(client(loop, server.address(), patient({}))));
  EXPECT_THAT(gyre::trace::dump_text({.slow = 15ms}), HasSubstr("nats request reports.yearly: "));
}

}  // namespace
}  // namespace nats_client_trace_test
