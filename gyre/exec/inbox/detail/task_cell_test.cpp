// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/task_cell.hpp>

#include <gyre/exec/inbox/inbox_test_support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gyre::inbox::suite {
namespace task_cell_test {
namespace {

using detail::boxed_task;
using detail::task_cell;
using detail::with_cell_sized;

template <std::size_t Bytes, std::size_t Alignment = 1>
struct alignas(Alignment) plain {
  std::array<char, Bytes> bytes;
  void operator()() const {}
};

static_assert(sizeof(task_cell) == 32, "two fill a cache line");
static_assert(task_cell::holds<void (*)()>);
static_assert(task_cell::holds<plain<1>>);
static_assert(task_cell::holds<plain<24, 8>>);
static_assert(task_cell::holds<const plain<24, 8>&>);
static_assert(!task_cell::holds<plain<25>>, "too large");
static_assert(!task_cell::holds<plain<16, 16>>, "stricter aligned than a cell");
static_assert(!task_cell::holds<const uncopyable_task&>, "its copying may throw");
static_assert(!task_cell::holds<const unmovable_task&>, "its moving may throw");
static_assert(task_cell::holds<boxed_task<plain<1000>>>);

template <class F>
void put(task_cell& cell, F&& callable) {
  with_cell_sized(std::forward<F>(callable),
                  [&]<class G>(G&& fitting) { cell.emplace(std::forward<G>(fitting)); });
}

TEST(TaskCell, IsReadyFromEmplaceToRun) {
  task_cell cell;
  EXPECT_FALSE(cell.ready());
  for (int i = 0; i < 3; ++i) {
    int runs = 0;
    cell.emplace([&] { ++runs; });
    EXPECT_TRUE(cell.ready());
    cell.run();
    EXPECT_FALSE(cell.ready());
    EXPECT_EQ(runs, 1);
  }
}

TEST(TaskCell, DestroysItsTaskOnceWhetherItRunsOrNot) {
  fates told;
  task_cell cell;
  put(cell, sized_task<24>(told));
  cell.run();
  put(cell, sized_task<24>(told));
  cell.drop();
  put(cell, sized_task<100>(told));
  cell.run();
  put(cell, sized_task<100>(told));
  cell.drop();
  EXPECT_FALSE(cell.ready());
  EXPECT_EQ(told.run, 2);
  EXPECT_EQ(told.destroyed, 4);
}

TEST(TaskCell, IsFreeAfterATaskThatThrows) {
  fates told;
  task_cell cell;
  cell.emplace([held = witness(told)] { throw std::runtime_error("a task's own"); });
  EXPECT_THROW(cell.run(), std::runtime_error);
  EXPECT_FALSE(cell.ready());
  EXPECT_EQ(told.destroyed, 1);
}

TEST(TaskCell, IsMarkedFreeBeforeItsTaskRuns) {
  task_cell cell;
  bool was_ready = true;
  cell.emplace([&] { was_ready = cell.ready(); });
  cell.run();
  EXPECT_FALSE(was_ready);
}

TEST(BoxedTask, GivesItsBlockBackWhenItsConstructionThrows) {
  const std::size_t before = read_slab_stats().blocks_in_use;
  const uncopyable_task uncopyable;
  EXPECT_THROW(boxed_task<uncopyable_task>{uncopyable}, std::runtime_error);
  EXPECT_EQ(read_slab_stats().blocks_in_use, before);
}

TEST(BoxedTask, HasOneOwner) {
  fates told;
  {
    boxed_task<sized_task<100>> first(sized_task<100>{told});
    boxed_task<sized_task<100>> second(std::move(first));
    second();
    EXPECT_EQ(told.destroyed, 0);
  }
  EXPECT_EQ(told.run, 1);
  EXPECT_EQ(told.destroyed, 1);
}

TEST(BoxedTask, AlignsWhatTheSlabCannot) {
  fates told;
  task_cell cell;
  put(cell, sized_task<256, 256>(told));
  cell.run();
  EXPECT_EQ(told.run, 1);
  EXPECT_EQ(told.destroyed, 1);
}

}  // namespace
}  // namespace task_cell_test
}  // namespace gyre::inbox::suite
