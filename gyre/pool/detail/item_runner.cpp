// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/item_runner.hpp>

#include <gyre/task/detail/nested_run.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/function_sequence.hpp>

#include <utility>

namespace gyre::detail {
namespace {

// The item_runner whose leftovers the calling thread runs, or null.
constinit thread_local const item_runner* runner_of_leftovers = nullptr;

/// The scope in which a thread runs leftovers, including those that it submits meanwhile.
class leftover_scope {
 public:
  explicit leftover_scope(const item_runner& runner) noexcept
      : outer_(std::exchange(runner_of_leftovers, &runner)) {}
  leftover_scope& operator=(leftover_scope&&) = delete;
  ~leftover_scope() { runner_of_leftovers = outer_; }

 private:
  const item_runner* outer_;
  nested_run run_;
};

}  // namespace

void item_runner::run(pool_worker& self, work_item item) noexcept {
  if (item.is_task() && life_cycle_.is_dropping()) [[unlikely]] {
    drop(item.task());
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  self.started.add(1);
  ++self.depth;
  if (self.record.measures()) [[unlikely]] {
    trace::detail::function_sequence items(self.record.recorder(),
                                           trace::detail::event_kind::pool_task,
                                           trace::detail::event_kind::pool_coroutine);
    items.begin_function(item.op().code());
    execute(self, item);
    items.end_function();
    self.record.end_item(items.last() - items.first());
  } else {
    execute(self, item);
    self.record.end_item(0);
  }
  --self.depth;
  self.finished.add(1);
}

inline void item_runner::execute(pool_worker& self, work_item item) noexcept {
  if (item.is_task()) {
    pool_task& task = item.task();
    slots_.release_later(task.has_slot, self.free_slots);
    guard_.call([&] { task.execute(); });
  } else {
    item.op().execute();
  }
}

void item_runner::drop(pool_task& task) noexcept {
  const bool had_slot = task.has_slot;
  task.drop();
  slots_.release_slot(had_slot);
  quiescence_.count_dropped();
  quiescence_.notify();  // no worker notifies if the last task is dropped
}

[[gnu::noinline]] bool item_runner::is_running_leftovers() const noexcept {
  return runner_of_leftovers == this;
}

void item_runner::run_leftovers(task_scheduler& scheduler) noexcept {
  const leftover_scope scope(*this);
  bool has_run_items = false;
  while (const work_item item = scheduler.take_leftover()) {
    if (item.is_task()) {
      pool_task& task = item.task();
      slots_.release_slot(task.has_slot);
      guard_.call([&] { task.execute(); });
    } else {
      inline_executor().post(item.op());
    }
    quiescence_.count_run_outside();
    has_run_items = true;
  }
  if (has_run_items) quiescence_.notify();
}

void item_runner::run_in_place(callable_ref callable) noexcept {
  slots_.release(1);
  guard_.call(callable);
  quiescence_.count_run_outside();
}

// Counts neither start nor end, because the timer of the task was counted as an operation.
void item_runner::run_due(pool_task& task) noexcept {
  if (life_cycle_.is_dropping()) {
    drop_delayed(task);
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  slots_.release(1);
  guard_.call([&] { task.execute(); });
}

void item_runner::drop_delayed(pool_task& task) noexcept {
  task.drop();
  slots_.release(1);
  dropped_delayed_tasks_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace gyre::detail
