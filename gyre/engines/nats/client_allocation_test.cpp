// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/trace/label.hpp>
#include <tests/support/nats_server.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

namespace nats_client_allocation_test {
namespace {

using gyre::task;
using gyre::nats::client;
using gyre::nats::message;
using gyre::nats::subscription;

task<> answer(client& bus, subscription& requests, int count) {
  for (; count > 0; --count) {
    const auto request = co_await requests.next();
    co_await bus.publish(request->reply(), request->text());
  }
}

task<> ask(client& bus, int count) {
  for (; count > 0; --count) {
    const message reply = co_await bus.request("echo", "hello");
    EXPECT_EQ(reply.text(), "hello");
  }
}

// A call's frame, and the message that it gives, come from the slab.
TEST(NatsAllocation, CallsAllocateNothingButTheirMessages) {
  gyre::loop loop;
  gyre::test::nats_server server(loop);
  auto run = [](gyre::loop& executor, gyre::test::nats_server& process) -> task<> {
    client bus(executor, process.address());
    // The flight recorder stores the name of what first takes a millisecond.
    gyre::trace::intern("echo");
    subscription requests = bus.subscribe("echo");
    co_await gyre::when_all(answer(bus, requests, 5000), ask(bus, 5000));
    const gyre::testing::allocation_count during;
    co_await gyre::when_all(answer(bus, requests, 1000), ask(bus, 1000));
    EXPECT_EQ(during.allocations(), 0U);
    EXPECT_EQ(during.slab_blocks(), 0);
    EXPECT_EQ(during.slabs_mapped(), 0U);
  };
  gyre::sync_wait(loop, run(loop, server));
}

}  // namespace
}  // namespace nats_client_allocation_test
