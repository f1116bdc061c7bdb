// SPDX-License-Identifier: Apache-2.0
// Stress tests of a pool's submissions with many threads: no task is lost, run twice or out of
// order, and no slot disappears.
#include <gyre/pool/detail/submissions.hpp>

#include <gyre/exec/inbox/inbox.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace submissions_stress_test {
namespace {

using gyre::steady_time;
using gyre::detail::admission;
using gyre::detail::admission_result;
using gyre::detail::basic_submissions;
using gyre::detail::submissions;
using gyre::inbox::batch;

constexpr steady_time for_ever = steady_time::max();

template <class Submissions>
struct pool {
  explicit pool(std::size_t limit) : gate(std::make_shared<admission>(limit)) {}

  // Pushes like a pool's submitter that blocks.
  template <class F>
  void push(F callable) {
    if (waiting.try_push(callable)) return;
    gyre::semaphore_permit slot;
    ASSERT_EQ(waiting.acquire_until(for_ever, slot), admission_result::granted);
    EXPECT_EQ(slot.forget(), 1U);
    waiting.push_built([&] { return callable; });
  }
  // Returns when `tasks` have run.
  void work(std::size_t tasks) {
    std::size_t freed = 0;
    while (ran.load() < tasks) {
      batch some(256);
      waiting.run_some(some);
      freed += some.ran();
      ran += some.ran();
      if (some.ran() == 0) {
        room.release(std::exchange(freed, 0));
        std::this_thread::yield();
      } else if (freed >= room.chunk_size()) {
        room.release(std::exchange(freed, 0));
      }
    }
    room.release(freed);
  }

  const std::shared_ptr<admission> gate;
  admission& room = *gate;
  Submissions waiting{gate};
  std::atomic<std::size_t> ran{0};
};

template <class Submissions>
class SubmissionStress : public testing::Test {};
using sizes = testing::Types<submissions, basic_submissions<3>>;
TYPED_TEST_SUITE(SubmissionStress, sizes);

TYPED_TEST(SubmissionStress, EachProducersTasksRunOnceAndInOrder) {
  constexpr std::size_t producers = 4;
  constexpr std::size_t each = 5000;
  for (const std::size_t limit : {std::size_t{1}, std::size_t{512}, admission::wide_capacity}) {
    const std::size_t tasks_each = limit == 1 ? each / 10 : each;
    pool<TypeParam> all(limit);
    std::array<std::size_t, producers> next{};  // one worker at a time has a producer's tasks
    {
      std::vector<std::jthread> threads;
      for (std::size_t producer = 0; producer < producers; ++producer) {
        threads.emplace_back([&, producer] {
          for (std::size_t number = 0; number < tasks_each; ++number) {
            const auto task = [&next, producer, number] {
              EXPECT_EQ(next.at(producer)++, number) << "lost, run twice or out of order";
            };
            static_assert(sizeof(task) == 24);
            ASSERT_NO_FATAL_FAILURE(all.push(task));
          }
        });
      }
      for (int worker = 0; worker < 2; ++worker) {
        threads.emplace_back([&] { all.work(producers * tasks_each); });
      }
    }
    for (const std::size_t reached : next) EXPECT_EQ(reached, tasks_each);
    EXPECT_EQ(all.waiting.pushed(), producers * tasks_each);
    EXPECT_FALSE(all.waiting.ready());
    EXPECT_EQ(all.room.free_slots(), limit);
  }
}

// There are far more threads than slots, and each thread ends with slots in stock.
TYPED_TEST(SubmissionStress, ShortThreadsTakeNoSlotsWithThem) {
  constexpr std::size_t threads = 10'000;
  pool<TypeParam> all(512);
  {
    std::jthread worker([&] { all.work(threads); });
    std::vector<std::jthread> starters;
    for (int starter = 0; starter < 2; ++starter) {
      starters.emplace_back([&] {
        for (std::size_t i = 0; i < threads / 2; ++i) {
          std::thread([&] { all.push([] {}); }).join();
        }
      });
    }
  }
  EXPECT_EQ(all.waiting.pending(), 0U);
  EXPECT_EQ(all.room.free_slots(), 512U);
}

TYPED_TEST(SubmissionStress, TasksThatAreRefusedAndTasksThatRunMakeUpAll) {
  constexpr std::size_t producers = 3;
  constexpr std::size_t each = 5000;
  pool<TypeParam> all(16);
  std::atomic<std::size_t> refused{0};
  std::atomic<bool> done{false};
  {
    std::jthread worker([&] {
      while (!done || all.waiting.ready()) {
        batch some(8);
        all.waiting.run_some(some);
        all.ran += some.ran();
        all.room.release(some.ran());
      }
    });
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < producers; ++i) {
        threads.emplace_back([&] {
          for (std::size_t number = 0; number < each; ++number) {
            if (!all.waiting.try_push([] {})) ++refused;
          }
        });
      }
    }
    done = true;
  }
  EXPECT_EQ(all.ran + refused, producers * each);
  EXPECT_EQ(all.waiting.pushed(), all.ran);
}

}  // namespace
}  // namespace submissions_stress_test
