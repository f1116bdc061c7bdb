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
#include <thread>

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

// Pushes at the end of its thread, from the destructor of a thread-local, without a free slot.
struct refused_pushes {
  gyre::detail::submissions* waiting = nullptr;
  std::int64_t* bytes = nullptr;
  ~refused_pushes() {
    if (waiting == nullptr) return;
    const std::int64_t before = bytes_held();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(waiting->try_push([] {}));
    *bytes = bytes_held() - before;
  }
};

refused_pushes& refused_pushes_of_this_thread() {
  thread_local refused_pushes pushes;
  return pushes;
}

TEST(SubmissionsMemory, RefusedPushesOfAThreadThatIsEndingHoldNone) {
  gyre::detail::submissions waiting(std::make_shared<gyre::detail::admission>(1));
  std::int64_t bytes = -1;
  std::thread([&] {
    // Made before the thread's list of shards, so destroyed after it.
    refused_pushes& at_end = refused_pushes_of_this_thread();
    at_end.bytes = &bytes;
    at_end.waiting = &waiting;
    EXPECT_TRUE(waiting.try_push([] {}));
  }).join();
  EXPECT_EQ(bytes, 0);
}

}  // namespace
}  // namespace thread_pool_memory_test
