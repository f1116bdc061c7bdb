// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/pool_core.hpp>

#include <gyre/base/available_parallelism.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/pool/detail/shared_queue_scheduler.hpp>
#include <gyre/pool/detail/stealing_scheduler.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::detail {
namespace {

constexpr int max_drop_attempts = 100;

std::unique_ptr<task_scheduler> make_scheduler(const thread_pool_options& options,
                                               const life_cycle& state, const worker_set& workers,
                                               std::shared_ptr<admission> slots,
                                               in_place_runner& runner) {
  switch (options.scheduler) {
    case scheduler::blocking: return std::make_unique<blocking_scheduler>(options, state, workers);
    case scheduler::spinning: return std::make_unique<spinning_scheduler>(options, state, workers);
    case scheduler::stealing: break;
  }
  return std::make_unique<stealing_scheduler>(options, state, workers, std::move(slots), runner);
}

/// A callable in a cell of the submissions, which adds an allocated task to the batch of the worker
/// that runs the callable. Queued for tasks whose own callables do not go into a cell.
class queued_task {
 public:
  explicit queued_task(pool_task& task) noexcept : task_(&task) {}

  void operator()() noexcept { current_batch().add(work_item(*task_.release())); }

 private:
  std::unique_ptr<pool_task, task_dropper> task_;
};

}  // namespace

// ---- construction and end

std::shared_ptr<pool_core> pool_core::make(thread_pool_options options) {
  if (options.capacity == 0) {
    throw std::invalid_argument("gyre::thread_pool: a capacity of at least 1 is needed");
  }
  require_not_negative(options.block_timeout, "gyre::thread_pool: block_timeout");
  require_not_negative(options.aging, "gyre::thread_pool: aging");
  if (options.workers == 0) {
    options.workers =
        std::min<std::size_t>(available_parallelism(), thread_pool_options::max_workers);
  }
  if (!options.on_exception) {
    options.on_exception = [](const std::exception_ptr& error) {
      terminate_with(error, "left a task of a pool");
    };
  }
  auto pool = std::make_shared<pool_core>(std::move(options));
  try {
    pool->resize(pool->options_.workers);
  } catch (...) {
    pool->stop(steady_time::max());
    throw;
  }
  return pool;
}

pool_core::pool_core(thread_pool_options&& options)
    : options_(std::move(options)),
      admission_(std::make_shared<detail::admission>(options_.capacity, options_.when_full,
                                                     options_.block_timeout)),
      // NOLINTNEXTLINE(bugprone-throw-keyword-missing): exception_guard is no exception
      guard_(options_.on_exception),
      runner_(life_cycle_, *admission_, guard_, quiescence_),
      workers_(this, options_, life_cycle_,
               [this](pool_worker& worker) -> worker_set::thread_body {
                 return [pool = shared_from_this(), &worker] {
                   worker_loop(worker, pool->worker_parts_).run();
                 };
               }),
      timers_(*this, options_.name.empty() ? "" : options_.name + "-timers"),
      delayed_tasks_(runner_, timers_),
      scheduler_(make_scheduler(options_, life_cycle_, workers_, admission_, runner_)),
      inbound_(scheduler_->inbound()),
      cells_(options_.record_times ? nullptr : inbound_.queue),
      quiescence_(workers_, *scheduler_),
      worker_parts_{options_, life_cycle_, *admission_, guard_,
                    workers_, *scheduler_, quiescence_, runner_} {}

pool_core::~pool_core() = default;

void pool_core::pause() noexcept {
  if (!life_cycle_.pause()) scheduler_->wake_all();
}

void pool_core::resume() noexcept {
  life_cycle_.resume();
  scheduler_->wake_all();
}

bool pool_core::stop(steady_time deadline) {
  // 1. Close. With a deadline that has passed, the pool also drops its tasks, even if it is paused.
  deadline <= monotonic_now() ? life_cycle_.close_and_drop() : life_cycle_.close();
  admission_->close();
  scheduler_->wake_all();
  std::size_t drop_count = delayed_tasks_.drop_all();
  // 2. Run dry.
  if (!wait_idle(deadline)) {
    life_cycle_.drop();
    drop_count += purge();
    static_cast<void>(wait_idle(steady_time::max()));
  }
  // 3. End. The fence pairs with the light fence in life_cycle::has_ended_after_store().
  life_cycle_.end();
  asymmetric_heavy_fence();
  // 4. Join.
  scheduler_->wake_all();
  if (worker_here() == nullptr) workers_.join();
  // 5. Run leftovers.
  runner_.run_leftovers(*scheduler_);
  quiescence_.notify();
  return drop_count == 0 && !runner_.has_dropped_while_stopping();
}

void pool_core::shut_down() noexcept {
  static_cast<void>(stop(steady_time::max()));
  workers_.join();
  timers_.stop();
  runner_.run_leftovers(*scheduler_);
  posts_.wait_for_end();
}

// ---- submissions

admission_result pool_core::submit_from_outside(const task_builder& builder, task_priority priority,
                                                admission::waiting caller, semaphore_permit slot) {
  using step = admission::step;
  steady_time deadline{};
  for (;;) {
    if (life_cycle_.is_closed()) {
      slot.release();
      return runner_.is_running_leftovers() ? run_here(builder)
                                            : admission_->count_refusal(admission_result::closed);
    }
    if (store(builder, priority, slot)) break;
    const step next_step = admission_->choose_step_outside(caller);
    if (next_step == step::suspend) return admission_result::must_wait;
    if (next_step == step::run_here) return run_here(builder);
    if (next_step == step::go_slotless) {
      scheduler_->enqueue(make_task(builder, slot), priority);
      break;
    }
    if (next_step == step::wait) {
      const admission_result result = wait_for_slot(priority, deadline, slot);
      if (result != admission_result::granted) return admission_->count_refusal(result);
    } else if (next_step == step::refuse || !drop_task()) {
      return admission_->count_refusal(admission_result::full);
    }
  }
  run_leftovers_if_ended();
  return admission_result::granted;
}

admission_result pool_core::submit_or_wait(task_builder builder, task_priority priority) {
  pool_worker* const self = worker_here();
  return self != nullptr ? submit_as_worker(*self, builder, priority)
                         : submit_from_outside(builder, priority, admission::waiting::suspends);
}

admission_result pool_core::submit_admitted(task_builder builder, task_priority priority,
                                            semaphore_permit slot) {
  if (pool_worker* const self = worker_here()) {
    slot.release();
    return submit_as_worker(*self, builder, priority);
  }
  return submit_from_outside(builder, priority, admission::waiting::fails, std::move(slot));
}

// A worker never waits for a slot, because it might be the worker that must free one.
admission_result pool_core::submit_as_worker(pool_worker& self, const task_builder& builder,
                                             task_priority priority) {
  using step = admission::step;
  semaphore_permit slot;
  for (;;) {
    if (life_cycle_.refuses_all()) {
      return runner_.is_running_leftovers() ? run_here(builder)
                                            : admission_->count_refusal(admission_result::closed);
    }
    if (take_slot(self, slot)) break;
    const step next_step = admission_->choose_step_within();
    if (next_step == step::run_here) return run_here(builder);
    if (next_step == step::go_slotless) break;
    if (next_step == step::refuse || !drop_task())
      return admission_->count_refusal(admission_result::full);
  }
  pool_task& task = make_task(builder, slot);
  if (priority == task_priority::normal) {
    scheduler_->enqueue_from_worker(self, task);
  } else {
    scheduler_->enqueue(task, priority);
  }
  return admission_result::granted;
}

// Refuses a delayed task when no slot is free, unless the caller can wait or a task can be dropped:
// a delayed task can neither run at once nor wait without a slot.
admission_result pool_core::submit_at(task_builder builder, steady_time deadline) {
  using step = admission::step;
  const auto caller =
      worker_here() == nullptr ? admission::waiting::blocks : admission::waiting::fails;
  steady_time deadline_of_wait{};
  semaphore_permit slot;
  while (!take_slot(slot)) {
    if (life_cycle_.is_closed()) return admission_->count_refusal(admission_result::closed);
    const step next_step = admission_->choose_step_outside(caller);
    if (next_step == step::wait) {
      const admission_result result = wait_for_slot(task_priority::low, deadline_of_wait, slot);
      if (result != admission_result::granted) return admission_->count_refusal(result);
    } else if (next_step != step::drop_another || !drop_task()) {
      return admission_->count_refusal(admission_result::full);
    }
  }
  std::unique_ptr<pool_task, task_dropper> task(&builder.make(false));
  if (!delayed_tasks_.add(deadline, *task))
    return admission_->count_refusal(admission_result::closed);
  static_cast<void>(task.release());
  slot.forget();
  return admission_result::granted;
}

pool_task& pool_core::make_task(const task_builder& builder, semaphore_permit& slot) {
  pool_task& task = builder.make(options_.record_times);
  task.has_slot = slot.forget() != 0;
  if (!task.has_slot) admission_->add_slotless();
  return task;
}

// Queues a task. Returns false, and leaves the callable unmoved, if no slot is free and `slot` is
// empty.
bool pool_core::store(const task_builder& builder, task_priority priority, semaphore_permit& slot) {
  if (takes_inbound(priority)) [[likely]] {
    // Uses a slot that the submission has waited for without another request, which could fail.
    const auto push = [&](auto&& build) {
      if (slot.forget() == 0) return inbound_.queue->try_push_built(build);
      inbound_.queue->push_built(build);
      return true;
    };
    const bool is_stored = cells_ != nullptr && builder.fits_cell()
                               ? push([&]() noexcept { return builder.in_cell(); })
                               : push([&] {
                                   pool_task& task = builder.make(options_.record_times);
                                   task.has_slot = true;
                                   return queued_task(task);
                                 });
    if (is_stored) inbound_.idle->notify();
    return is_stored;
  }
  if (!take_slot(slot)) return false;
  scheduler_->enqueue(make_task(builder, slot), priority);
  return true;
}

// Returns whether `slot` now holds a slot. If no slot is free, releases the slots that the thread
// has reserved for its next submissions of normal priority, and tries once more.
bool pool_core::take_slot(semaphore_permit& slot) noexcept {
  if (slot.count() == 0) slot = admission_->try_acquire();
  const bool may_hold_others = slot.count() == 0 && inbound_.queue != nullptr;
  if (may_hold_others && inbound_.queue->return_reserved_slots()) slot = admission_->try_acquire();
  return slot.count() != 0;
}

// Takes a slot for a worker: first from its `free_slots`, the slots of tasks that it has started.
bool pool_core::take_slot(pool_worker& self, semaphore_permit& slot) noexcept {
  if (self.free_slots == 0) return take_slot(slot);
  --self.free_slots;
  slot = semaphore_permit(admission_->slots(), 1);
  return true;
}

// Waits for a slot. The first wait of a submission sets `deadline`, which holds for all its waits.
admission_result pool_core::wait_for_slot(task_priority priority, steady_time& deadline,
                                          semaphore_permit& slot) {
  if (deadline == steady_time{}) deadline = admission_->blocking_deadline();
  if (takes_inbound(priority)) return inbound_.queue->acquire_until(deadline, slot);
  const auto [result, count] = admission_->wait_until(deadline, 1);
  slot = semaphore_permit(admission_->slots(), count);
  return result;
}

admission_result pool_core::run_here(const task_builder& builder) {
  const admission::submitter_run own_run;
  builder.run(guard_);
  admission_->count_submitter_run();
  return admission_result::granted;
}

bool pool_core::drop_task() noexcept {
  // Repeats the search, because it misses a task that is moving from one queue to another.
  for (int attempt = 0; attempt < max_drop_attempts; ++attempt) {
    if (pool_task* const task = scheduler_->take_least_urgent()) {
      runner_.drop(*task);
      return true;
    }
    if (admission_->free_slots() > 0) return true;
    if (admission_->limit() <= delayed_tasks_.size()) return false;  // delayed tasks hold all slots
    thread_yield();
  }
  return false;
}

// ---- tasks and operations

void pool_core::post(operation& op) noexcept {
  if (life_cycle_.has_ended()) [[unlikely]] {
    inline_executor().post(op);
    return;
  }
  const calls_in_flight::call counted_call(posts_);
  scheduler_->enqueue(op);
  run_leftovers_if_ended();
}

std::size_t pool_core::purge() {
  // Drops a limited number of tasks, because other threads may continue to submit.
  const std::size_t waiter_count = metrics().waiting;
  std::size_t drop_count = 0;
  for (; drop_count < waiter_count; ++drop_count) {
    pool_task* const task = scheduler_->take_least_urgent();
    if (task == nullptr) break;
    runner_.drop(*task);
  }
  return drop_count;
}

thread_pool_metrics pool_core::metrics() const {
  // relaxed: statistics, which guard no other data.
  const std::uint64_t dropped_delayed_tasks = runner_.dropped_delayed_tasks();
  thread_pool_metrics sum{
      .submitted = scheduler_->enqueued() + dropped_delayed_tasks,
      .dropped = quiescence_.dropped() + dropped_delayed_tasks,
      .refused = admission_->refusals(),
      .run_by_submitter = admission_->submitter_runs(),
      .exceptions = guard_.exceptions(),
      .wakeups = scheduler_->wakeups(),
      .delayed = delayed_tasks_.size(),
      .workers = workers_.target(),
  };
  sum.started = sum.finished = quiescence_.tasks_run_outside();
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    const pool_worker& worker = workers_[index];
    sum.finished += worker.finished.get();
    sum.started += worker.started.get();
    sum.steals += worker.steals.get();
    sum.parks += worker.parks.get();
    sum.submitted += worker.submitted.get();
    if (worker.queue_wait) sum.queue_wait.merge(*worker.queue_wait);
    if (worker.run_time) sum.run_time.merge(*worker.run_time);
  }
  const std::uint64_t dequeued_tasks = sum.started + sum.dropped;
  sum.waiting =
      sum.submitted > dequeued_tasks ? static_cast<std::size_t>(sum.submitted - dequeued_tasks) : 0;
  return sum;
}

}  // namespace gyre::detail
