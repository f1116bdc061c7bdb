// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/item_runner.hpp>

#include <gyre/task/detail/nested_run.hpp>
#include <gyre/task/executor.hpp>

#include <utility>

namespace gyre::detail {
namespace {

// The runner whose leftovers the calling thread runs.
constinit thread_local const item_runner* leftovers_of = nullptr;

/// A thread that runs leftovers may submit more, which it runs as well.
class leftover_scope {
 public:
  explicit leftover_scope(const item_runner& runner) noexcept
      : outer_(std::exchange(leftovers_of, &runner)) {}
  leftover_scope& operator=(leftover_scope&&) = delete;
  ~leftover_scope() { leftovers_of = outer_; }

 private:
  const item_runner* outer_;
  nested_run run_;
};

}  // namespace

void item_runner::run(pool_worker& self, work_item item) noexcept {
  if (item.is_task() && life_.is_dropping()) [[unlikely]] {
    drop(item.task());
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  self.started.add(1);
  ++self.depth;
  if (item.is_task()) {
    pool_task& task = item.task();
    gate_.release_later(task.has_slot, self.free_slots);
    exceptions_.call([&] { task.execute(); });
  } else {
    item.op().execute();
  }
  --self.depth;
  self.finished.add(1);
}

void item_runner::drop(pool_task& task) noexcept {
  const bool had_slot = task.has_slot;
  task.drop();
  gate_.release_slot(had_slot);
  counts_.count_dropped();
  counts_.notify();  // it may have been the last, and no worker has seen it
}

[[gnu::noinline]] bool item_runner::runs_leftovers_here() const noexcept {
  return leftovers_of == this;
}

void item_runner::run_leftovers(task_scheduler& scheduler) noexcept {
  const leftover_scope here(*this);
  bool any = false;
  while (const work_item item = scheduler.take_leftover()) {
    if (item.is_task()) {
      pool_task& task = item.task();
      gate_.release_slot(task.has_slot);
      exceptions_.call([&] { task.execute(); });
    } else {
      inline_executor().post(item.op());
    }
    counts_.count_run_outside();
    any = true;
  }
  if (any) counts_.notify();
}

void item_runner::run_in_place(callable_ref callable) noexcept {
  gate_.release(1);
  exceptions_.call(callable);
  counts_.count_run_outside();
}

// A delayed task is not counted itself, as its timer was counted as an operation.
void item_runner::run_due(pool_task& task) noexcept {
  if (life_.is_dropping()) {
    drop_delayed(task);
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  gate_.release(1);
  exceptions_.call([&] { task.execute(); });
}

void item_runner::drop_delayed(pool_task& task) noexcept {
  task.drop();
  gate_.release(1);
  delayed_dropped_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gyre::detail
