// SPDX-License-Identifier: Apache-2.0
// Tests that calls of Redis allocate nothing but their results: every allocation of this program is
// counted.
#include <gyre/engines/redis/cached_client.hpp>
#include <gyre/engines/redis/client.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/testing/allocations.hpp>
#include <gyre/trace/label.hpp>
#include <tests/support/redis_server.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace redis_client_allocation_test {
namespace {

using gyre::task;
using gyre::redis::cached_client;
using gyre::redis::client;

task<> increment(client& cache, int times) {
  for (; times > 0; --times) co_await cache.call<int>("INCR", "count");
}

// Runs ten coroutines that share the client.
task<> increment_together(client& cache, int times) {
  std::vector<task<>> all;
  for (int each = 0; each < 10; ++each) all.push_back(increment(cache, times));
  co_await gyre::when_all(std::move(all));
}

task<> read(cached_client& cache, int times) {
  for (; times > 0; --times) co_await cache.read<int>("GET", "count");
}

TEST(RedisClientAllocation, CallsAllocateNothing) {
  gyre::loop loop;
  gyre::test::redis_server server(loop);
  client cache(loop, server.address());
  gyre::trace::intern("INCR");  // the flight recorder stores the name of what takes a millisecond
  gyre::sync_wait(loop, increment_together(cache, 300));
  const gyre::testing::allocation_count few;
  gyre::sync_wait(loop, increment_together(cache, 10));
  const std::size_t allocations_of_few = few.allocations();
  const gyre::testing::allocation_count many;
  gyre::sync_wait(loop, increment_together(cache, 1000));
  EXPECT_EQ(many.allocations(), allocations_of_few);
  EXPECT_EQ(many.slab_blocks(), 0);
}

TEST(RedisClientAllocation, ReadsFromMemoryAllocateNothing) {
  gyre::loop loop;
  gyre::test::redis_server server(loop);
  cached_client cache(loop, server.address());
  gyre::sync_wait(loop, increment(cache.uncached(), 1));
  gyre::sync_wait(loop, read(cache, 10));
  const gyre::testing::allocation_count few;
  gyre::sync_wait(loop, read(cache, 1));
  const std::size_t allocations_of_few = few.allocations();
  const gyre::testing::allocation_count many;
  gyre::sync_wait(loop, read(cache, 1000));
  EXPECT_EQ(many.allocations(), allocations_of_few);
  EXPECT_EQ(cache.metrics().misses, 1U);
}

}  // namespace
}  // namespace redis_client_allocation_test
