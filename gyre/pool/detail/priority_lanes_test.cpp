// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/priority_lanes.hpp>

#include <gyre/pool/detail/pool_task.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace priority_lanes_test {
namespace {

using gyre::task_priority;
using gyre::detail::pool_task;
using gyre::detail::priority_lanes;
using testing::ElementsAre;
using namespace std::chrono_literals;

// Tasks that record their names when they run.
class PriorityLanes : public testing::Test {
 protected:
  void push(char name, task_priority priority) {
    lanes.push(gyre::detail::make_pool_task([this, name] { ran.push_back(name); }), priority);
  }
  static bool run(pool_task* task) {
    if (task != nullptr) task->execute();
    return task != nullptr;
  }
  void run_all() {
    while (run(lanes.take())) {
    }
  }

  std::vector<char> ran;
  priority_lanes lanes{1h};
};

TEST_F(PriorityLanes, GiveTheFirstOfTheHighestPriority) {
  push('a', task_priority::low);
  push('b', task_priority::normal);
  push('c', task_priority::high);
  push('d', task_priority::normal);
  push('e', task_priority::high);
  EXPECT_EQ(lanes.size(), 5U);
  EXPECT_EQ(lanes.size(task_priority::high), 2U);
  run_all();
  EXPECT_THAT(ran, ElementsAre('c', 'e', 'b', 'd', 'a'));
  EXPECT_EQ(lanes.size(), 0U);
}

TEST_F(PriorityLanes, GiveANormalOneEverySoOftenThoughHighOnesWait) {
  push('n', task_priority::normal);
  for (unsigned i = 0; i < 2 * priority_lanes::normal_turn; ++i) push('h', task_priority::high);
  for (unsigned i = 0; i < priority_lanes::normal_turn; ++i) ASSERT_TRUE(run(lanes.take()));
  EXPECT_EQ(std::ranges::count(ran, 'n'), 1);
  run_all();
}

TEST_F(PriorityLanes, GiveALowOneFirstOnceItHasAged) {
  priority_lanes impatient(0ns);
  impatient.push(gyre::detail::make_pool_task([this] { ran.push_back('h'); }), task_priority::high);
  impatient.push(gyre::detail::make_pool_task([this] { ran.push_back('l'); }), task_priority::low);
  EXPECT_TRUE(run(impatient.take()));
  EXPECT_TRUE(run(impatient.take()));
  EXPECT_THAT(ran, ElementsAre('l', 'h'));
}

TEST_F(PriorityLanes, GiveTheLeastFirstToWhoeverDropsOne) {
  push('h', task_priority::high);
  push('n', task_priority::normal);
  push('l', task_priority::low);
  while (run(lanes.take_least_urgent())) {
  }
  EXPECT_THAT(ran, ElementsAre('l', 'n', 'h'));
}

TEST_F(PriorityLanes, GiveWhatWasPutBackBeforeOthers) {
  push('a', task_priority::normal);
  push('b', task_priority::normal);
  lanes.put_back(*lanes.take());
  run_all();
  EXPECT_THAT(ran, ElementsAre('a', 'b'));
}

TEST_F(PriorityLanes, GiveWhatWasPutBackInTheTurnOfItsPriority) {
  push('l', task_priority::low);
  pool_task* const taken = lanes.take();
  push('m', task_priority::low);
  push('n', task_priority::normal);
  push('h', task_priority::high);
  lanes.put_back(*taken);
  run_all();
  EXPECT_THAT(ran, ElementsAre('h', 'n', 'l', 'm'));
}

TEST(PoolTask, DroppedDestroysItsCallableWithoutRunningIt) {
  struct watched {
    explicit watched(std::array<int, 2>& to) : counts(&to) {}
    watched(watched&& other) noexcept : counts(std::exchange(other.counts, nullptr)) {}
    watched& operator=(watched&&) = delete;
    ~watched() {
      if (counts != nullptr) ++(*counts)[1];
    }
    void operator()() const { ++(*counts)[0]; }
    std::array<int, 2>* counts;
  };
  std::array<int, 2> counts{};
  gyre::detail::make_pool_task(watched(counts)).drop();
  EXPECT_THAT(counts, ElementsAre(0, 1));
  gyre::detail::make_pool_task(watched(counts)).execute();
  EXPECT_THAT(counts, ElementsAre(1, 2));
}

TEST(WorkItem, TellsTasksFromOperations) {
  const gyre::detail::work_item none;
  EXPECT_FALSE(none);
  pool_task& task = gyre::detail::make_pool_task([] {});
  const gyre::detail::work_item of_task(task);
  EXPECT_TRUE(of_task && of_task.is_task());
  EXPECT_EQ(&of_task.task(), &task);
  const gyre::detail::work_item of_operation(static_cast<gyre::operation&>(task));
  EXPECT_TRUE(of_operation && !of_operation.is_task());
  EXPECT_NE(of_task, of_operation);
  task.drop();
}

}  // namespace
}  // namespace priority_lanes_test
