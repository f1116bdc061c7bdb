// SPDX-License-Identifier: Apache-2.0
// Stress tests of pools with random schedules: all functions of a pool, in any order, called by its
// owner, by another thread and by its tasks. No task may be lost or run twice.
#include <gyre/pool/thread_pool.hpp>

#include <gyre/pool/thread_pool_test_support.hpp>
#include <tests/support/sanitizers.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <semaphore>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace thread_pool_stress_test {
namespace {

using gyre::scheduler;
using gyre::task_priority;
using gyre::thread_pool;
using gyre::when_full;
using gyre::test::unless_sanitized;
using namespace std::chrono_literals;

// The ends of the tasks of one schedule.
struct account {
  std::atomic<std::int64_t> alive = 0;
  std::atomic<std::uint64_t> ran = 0;
};

// A task that is counted from its construction to its end; it runs at most once.
class counted {
 public:
  counted(account& in, thread_pool& on, unsigned what) noexcept : in_(&in), on_(&on), what_(what) {
    ++in_->alive;
  }
  counted(counted&& other) noexcept
      : in_(std::exchange(other.in_, nullptr)), on_(other.on_), what_(other.what_) {}
  counted& operator=(counted&&) = delete;
  ~counted() {
    if (in_ != nullptr) --in_->alive;
  }

  void operator()();

 private:
  account* in_;
  thread_pool* on_;
  unsigned what_;
};

// Refusals are expected; other errors are not.
template <class Call>
void tolerate_refusal(Call&& call) {
  const std::error_code why = gyre::test::error_of(std::forward<Call>(call));
  EXPECT_TRUE(!why || why == std::errc::resource_unavailable_try_again ||
              why == std::errc::timed_out || why == std::errc::operation_canceled)
      << why.message();
}

void submit_one(account& in, thread_pool& pool, unsigned what) {
  const auto priority = static_cast<task_priority>(what / 8 % 3);
  const unsigned next = what / 24;
  switch (what % 8) {
    case 0:
    case 1: tolerate_refusal([&] { pool.post(counted(in, pool, next), priority); }); break;
    case 2: static_cast<void>(pool.try_post(counted(in, pool, next), priority)); break;
    case 3:
      tolerate_refusal([&] {
        auto end = pool.submit(counted(in, pool, next), priority);
        // A task waits for a limited time, as helping may make tasks wait for each other in a
        // circle.
        pool.running_here() ? static_cast<void>(end.wait_for(1ms)) : end.get();
      });
      break;
    case 4:
      tolerate_refusal([&] { static_cast<void>(pool.submit(counted(in, pool, next))); });
      break;
    case 5:
      tolerate_refusal([&] { pool.post_after(what % 3 * 20us, counted(in, pool, next)); });
      break;
    case 6: std::this_thread::yield(); break;
    case 7: static_cast<void>(pool.wait_idle_for(50us)); break;
  }
}

void counted::operator()() {
  ASSERT_NE(in_, nullptr);
  ++in_->ran;
  if (what_ == 0) return;
  // Submits a few smaller tasks, waits, or calls a function of its pool.
  switch (what_ % 7) {
    case 0:
      submit_one(*in_, *on_, what_ / 7);
      submit_one(*in_, *on_, what_ / 7 + 3);
      break;
    case 1: submit_one(*in_, *on_, what_ / 7); break;
    case 2: tolerate_refusal([&] { on_->resize(1 + what_ / 7 % 3); }); break;
    case 3: on_->purge(); break;
    default: break;
  }
}

void control(std::mt19937& random, account& in, thread_pool& pool) {
  switch (random() % 10) {
    case 0:
      pool.pause();
      std::this_thread::yield();
      pool.resume();
      break;
    case 1: pool.resize(1 + random() % 3); break;
    case 2: pool.purge(); break;
    case 3: static_cast<void>(pool.wait_idle_for(100us)); break;
    default: submit_one(in, pool, static_cast<unsigned>(random()));
  }
}

// Blocks until nothing waits or runs. True if nothing is delayed, either, so that nothing will run.
bool has_ended(thread_pool& pool) {
  // A delayed task that falls due after wait_idle() is in neither figure of one moment.
  const std::uint64_t before = pool.metrics().submitted;
  pool.wait_idle();
  const bool none_delayed = pool.metrics().delayed == 0;
  return none_delayed && pool.metrics().submitted == before;
}

void live(std::uint32_t seed) {
  std::mt19937 random(seed);
  account all;
  gyre::test::counted_operation op;
  {
    auto pool = std::make_unique<thread_pool>(
        gyre::thread_pool_options{.workers = 1 + random() % 3,
                                  .scheduler = static_cast<scheduler>(random() % 3),
                                  .capacity = 1 + random() % 8,
                                  .when_full = static_cast<when_full>(random() % 4),
                                  .block_timeout = 200us,
                                  .aging = 1us,
                                  .record_times = random() % 4 == 0});
    {
      const std::uint32_t other_seed = static_cast<std::uint32_t>(random());
      std::jthread other([&, other_seed] {
        std::mt19937 others(other_seed);
        for (int i = 0; i < 6; ++i) submit_one(all, *pool, static_cast<unsigned>(others()));
      });
      for (int i = 0; i < 8; ++i) control(random, all, *pool);
      pool->post(op);
      if (random() % 3 == 0) static_cast<void>(pool->stop(random() % 2 * 100us));
    }
    switch (random() % 4) {
      case 0: pool->wait_idle(); break;
      case 1: pool->drain(); break;
      case 2: {
        // No task may wait now: it might run the destroying task on its own stack, and would resume
        // without a pool.
        while (!has_ended(*pool)) continue;
        std::binary_semaphore submitted(0);
        tolerate_refusal([&] {
          auto end = pool->submit([&] {
            if (!pool->running_here()) return;  // runs within submit(), which still needs the pool
            submitted.acquire();
            pool.reset();
          });
          submitted.release();
          end.get();  // cancelled if another task has dropped it
        });
        break;
      }
      default: break;
    }
    if (pool) {
      pool->drain();
      // The timer thread may still be posting the operation that takes due timers. If a task was
      // lost, the loop does not end.
      auto counts = pool->metrics();
      while (counts.submitted != counts.finished + counts.dropped) {
        std::this_thread::yield();
        counts = pool->metrics();
      }
      EXPECT_EQ(counts.waiting, 0U) << "seed " << seed;
      EXPECT_EQ(counts.delayed, 0U);
    }
  }
  EXPECT_EQ(op.runs, 1) << "seed " << seed;
  EXPECT_EQ(all.alive, 0) << "seed " << seed;
}

class RandomSchedules : public testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(From, RandomSchedules, testing::Values(0, 1, 2, 3, 4));

// There are ten thousand schedules, fewer in sanitizer builds, where each takes ten times as long.
TEST_P(RandomSchedules, LoseNothing) {
  constexpr std::uint32_t each = unless_sanitized(2000U, 10U);
  for (std::uint32_t i = 0; i < each && !testing::Test::HasFailure(); ++i) {
    live(GetParam() * each + i);
  }
}

}  // namespace
}  // namespace thread_pool_stress_test
