// SPDX-License-Identifier: Apache-2.0
// Tests of sharded without memory: it is started or not, and can always be ended.
#include <gyre/runtime/sharded.hpp>

#include <gyre/exec/loop.hpp>
#include <gyre/runtime/loop_pool.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace sharded_memory_test {
namespace {

using namespace std::chrono_literals;
using gyre::sharded;
using gyre::sync_wait;
using gyre::testing::failing_allocations;

class instance {
 public:
  explicit instance(int failing) {
    if (++made == failing) throw std::runtime_error("no place");
    ++alive;
  }
  instance(const instance&) = delete;
  instance& operator=(const instance&) = delete;
  ~instance() { --alive; }

  static inline std::atomic<int> made{0};
  static inline std::atomic<int> alive{0};
};

class ShardedMemory : public testing::Test {
 protected:
  ShardedMemory() { instance::made = 0; }
  ~ShardedMemory() override { EXPECT_EQ(instance::alive, 0); }
  gyre::loop_pool loops_{3};
};

TEST_F(ShardedMemory, StartWithoutAnyChangesNothing) {
  sharded<instance> instances(loops_);
  {
    const failing_allocations here;
    EXPECT_THROW(sync_wait(instances.start(0)), std::bad_alloc);
  }
  EXPECT_FALSE(instances.is_started());
  EXPECT_THROW(sync_wait(instances.call_on(0, [](instance&) {})), std::logic_error);
  sync_wait(instances.start(0));
  EXPECT_EQ(instance::alive, 3);
  sync_wait(instances.stop());
}

TEST_F(ShardedMemory, InstancesAreDestroyedWithoutAnyWhenAConstructorThrows) {
  sharded<instance> instances(loops_);
  gyre::loop home;
  std::future<void> start = gyre::spawn_future(home, instances.start(2));
  home.poll();
  {
    const failing_allocations here;
    while (start.wait_for(0s) != std::future_status::ready) home.run_once();
  }
  EXPECT_THROW(start.get(), std::runtime_error);
  EXPECT_FALSE(instances.is_started());
  EXPECT_EQ(instance::alive, 0);
}

TEST_F(ShardedMemory, StopAndDestructorNeedNone) {
  for (const bool by_stop : {true, false}) {
    std::optional<sharded<instance>> instances(std::in_place, loops_);
    sync_wait(instances->start(0));
    gyre::task<> stop = instances->stop();
    const failing_allocations here;
    if (by_stop) sync_wait(std::move(stop));
    instances.reset();
    EXPECT_EQ(instance::alive, 0);
  }
}

}  // namespace
}  // namespace sharded_memory_test
