// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/detail/task_cell.hpp>

#include <gyre/base/slab.hpp>
#include <gyre/exec/inbox/detail/erased_task.hpp>
#include <gyre/exec/inbox/inbox_test_support.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::inbox::suite {
namespace task_cell_test {
namespace {

using detail::boxed_task;
using detail::erased_task;
using detail::task_cell;
using detail::with_cell_sized;

template <std::size_t Bytes, std::size_t Alignment = 1>
struct alignas(Alignment) plain {
  std::array<char, Bytes> bytes;
  void operator()() const {}
};

static_assert(sizeof(task_cell) == 32, "two fill a cache line");
static_assert(task_cell::holds<void (*)()>);
static_assert(task_cell::holds<plain<24, 8>, 1>);
static_assert(task_cell::holds<const plain<24, 8>&, 1>);
static_assert(!task_cell::holds<plain<25>, 1>, "too large for one cell");
static_assert(task_cell::cells_for<plain<1>> == 1 && task_cell::cells_for<plain<24>> == 1);
static_assert(task_cell::cells_for<plain<25>> == 2 && task_cell::cells_for<plain<56>> == 2);
static_assert(task_cell::cells_for<plain<57>> == 3 && task_cell::cells_for<plain<88>> == 3);
static_assert(task_cell::cells_for<plain<89>> == 4 && task_cell::cells_for<plain<120>> == 4);
static_assert(task_cell::capacity(1) == 24 && task_cell::capacity(4) == 120);
static_assert(task_cell::holds<plain<120, 8>>);
static_assert(!task_cell::holds<plain<121>>, "too large");
static_assert(!task_cell::holds<plain<16, 16>>, "stricter aligned than a cell");
static_assert(task_cell::holds<const uncopyable_task&>, "its copy can be moved");
static_assert(!task_cell::holds<const unmovable_task&>, "its moving may throw");
static_assert(task_cell::holds<boxed_task<plain<1000>>, 1>);

// Cells of which a record takes the first ones.
struct row {
  std::array<task_cell, task_cell::max_cells> cells;

  template <std::size_t Cells = task_cell::max_cells, class F>
  void put(F&& callable) {
    with_cell_sized<Cells>(std::forward<F>(callable), [&]<class G>(G&& fitting) {
      cells[0].emplace(std::forward<G>(fitting));
    });
  }
  std::size_t run() { return cells[0].run(cells[0].look()); }
  std::size_t drop() { return cells[0].drop(cells[0].look()); }
  bool is_free() const {
    return std::ranges::none_of(cells, [](const task_cell& each) { return each.ready(); });
  }
};

TEST(TaskCell, IsReadyFromEmplaceToRun) {
  row cells;
  EXPECT_TRUE(cells.is_free());
  for (int i = 0; i < 3; ++i) {
    int runs = 0;
    cells.put([&] { ++runs; });
    EXPECT_TRUE(cells.cells[0].ready());
    EXPECT_EQ(cells.run(), 1U);
    EXPECT_TRUE(cells.is_free());
    EXPECT_EQ(runs, 1);
  }
}

template <std::size_t Bytes, std::size_t Cells>
void run_and_drop() {
  fates told;
  row cells;
  cells.put(sized_task<Bytes>(told));
  EXPECT_EQ(cells.run(), Cells);
  EXPECT_TRUE(cells.is_free());
  cells.put(sized_task<Bytes>(told));
  EXPECT_EQ(cells.drop(), Cells);
  EXPECT_TRUE(cells.is_free());
  EXPECT_EQ(told.run, 1);
  EXPECT_EQ(told.destroyed, 2);
}

TEST(TaskCell, TakesAsManyCellsAsTheCallableNeedsAndFreesThem) {
  const std::size_t before = read_slab_stats().blocks_in_use;
  run_and_drop<24, 1>();
  run_and_drop<32, 2>();
  run_and_drop<56, 2>();
  run_and_drop<64, 3>();
  run_and_drop<88, 3>();
  run_and_drop<96, 4>();
  run_and_drop<120, 4>();
  EXPECT_EQ(read_slab_stats().blocks_in_use, before);
  run_and_drop<128, 1>();
}

TEST(TaskCell, TakesABoxOfACallableThatIsTooLargeForTheSegment) {
  fates told;
  row cells;
  cells.put<2>(sized_task<64>(told));
  EXPECT_EQ(cells.run(), 1U);
  cells.put<2>(sized_task<56>(told));
  EXPECT_EQ(cells.run(), 2U);
  EXPECT_EQ(told.run, 2);
  EXPECT_EQ(told.destroyed, 2);
}

TEST(TaskCell, FreesItsCellsWhenATaskThrows) {
  fates told;
  row cells;
  cells.put([held = witness(told), large = std::array<char, 80>{}] {
    throw std::runtime_error("a task's own" + std::string(large.data()));
  });
  const task_cell::thunk seen = cells.cells[0].look();
  EXPECT_THROW(cells.run(), std::runtime_error);
  EXPECT_TRUE(cells.is_free());
  EXPECT_EQ(told.destroyed, 1);
  EXPECT_EQ(task_cell::measure(seen), 3U);
}

TEST(TaskCell, IsMarkedFreeBeforeItsTaskRuns) {
  row cells;
  bool was_ready = true;
  cells.put([&] { was_ready = cells.cells[0].ready(); });
  cells.run();
  EXPECT_FALSE(was_ready);
}

TEST(TaskCell, IsUntouchedByACopyThatThrows) {
  row cells;
  const uncopyable_task uncopyable;
  EXPECT_THROW(cells.put(uncopyable), std::runtime_error);
  EXPECT_TRUE(cells.is_free());
}

TEST(TaskCell, KnowsAnEndFromATask) {
  task_cell cell;
  cell.mark_end();
  EXPECT_TRUE(task_cell::is_end(cell.look()));
  cell.clear_end();
  EXPECT_FALSE(cell.ready());
  cell.emplace([] {});
  EXPECT_FALSE(task_cell::is_end(cell.look()));
  cell.run(cell.look());
}

TEST(ErasedTask, IsBuiltInCellsOrAsAFunction) {
  fates told;
  row cells;
  {
    sized_task<100> first(told);
    const erased_task erased(std::move(first));
    EXPECT_EQ(erased.cells(), 4U);
    cells.cells[0].emplace(erased.cell_callable());
  }
  EXPECT_EQ(told.destroyed, 0);
  EXPECT_EQ(cells.run(), 4U);
  EXPECT_TRUE(cells.is_free());
  sized_task<100> second(told);
  erased_task(std::move(second)).function()();
  EXPECT_EQ(told.run, 2);
  EXPECT_EQ(told.destroyed, 2);
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
  row cells;
  cells.put(sized_task<256, 256>(told));
  cells.run();
  EXPECT_EQ(told.run, 1);
  EXPECT_EQ(told.destroyed, 1);
}

}  // namespace
}  // namespace task_cell_test
}  // namespace gyre::inbox::suite
