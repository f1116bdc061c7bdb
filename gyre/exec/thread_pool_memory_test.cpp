// SPDX-License-Identifier: Apache-2.0
// Tests of pools where there is no memory left.
#include <gyre/exec/thread_pool.hpp>

#include <gtest/gtest.h>
#include <tests/support/counted_allocations.hpp>

#include <new>
#include <optional>

namespace thread_pool_memory_test {
namespace {

using gyre::scheduler;
using gyre::thread_pool;
using gyre::test::no_memory;

TEST(ThreadPoolMemory, EndsWithoutAny) {
  for (const scheduler each : {scheduler::stealing, scheduler::blocking, scheduler::spinning}) {
    std::optional<thread_pool> pool(std::in_place,
                                    gyre::thread_pool_options{.workers = 3, .scheduler = each});
    pool->post([] {});
    const no_memory here;
    EXPECT_THROW(pool->resize(64), std::bad_alloc);
    pool->drain();
    pool.reset();
  }
}

}  // namespace
}  // namespace thread_pool_memory_test
