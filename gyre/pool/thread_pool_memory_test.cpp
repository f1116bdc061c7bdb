// SPDX-License-Identifier: Apache-2.0
// Tests of pools without free memory.
#include <gyre/pool/thread_pool.hpp>

#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/submissions.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <new>
#include <optional>

namespace thread_pool_memory_test {
namespace {

using gyre::scheduler;
using gyre::thread_pool;
using gyre::testing::bytes_held;
using gyre::testing::failing_allocations;

TEST(ThreadPoolMemory, EndsWithoutAny) {
  for (const scheduler each : {scheduler::stealing, scheduler::blocking, scheduler::spinning}) {
    std::optional<thread_pool> pool(std::in_place,
                                    gyre::thread_pool_options{.workers = 3, .scheduler = each});
    pool->post([] {});
    const failing_allocations here;
    EXPECT_THROW(pool->resize(64), std::bad_alloc);
    pool->drain();
    pool.reset();
  }
}

// resume_on() of a pool posts such operations.
TEST(SubmissionsMemory, AnOperationWithoutASlotTakesACell) {
  constexpr std::int64_t count = 20'000;
  gyre::detail::submissions waiting(std::make_shared<gyre::detail::admission>(1));
  const std::int64_t before = bytes_held();
  for (int i = 0; i < count; ++i) waiting.push([] {});
  EXPECT_LE(bytes_held() - before, count * 33 + 64 * 1024);
}

}  // namespace
}  // namespace thread_pool_memory_test
