// SPDX-License-Identifier: Apache-2.0
// pool_core: the implementation of thread_pool, composed of its parts.
//
// No task is lost at the end. stop(), which drain() and the destructor also call, has five steps:
//
//   1. Close. The pool refuses submissions from outside, ends their waits for slots, and drops
//      delayed tasks that are not due. Workers may still submit.
//   2. Run dry. The thread waits until every task has ended, and runs tasks if it is a worker. At
//      the deadline, the pool drops the waiting tasks and also refuses submissions of workers.
//   3. End. The state becomes `ended`, followed by a heavy fence. From here on, a thread that adds
//      an item sees the end after its own light fence, and performs step 5 itself.
//   4. Join. The workers wake up, see the end and stop. A thread of the pool does not join itself.
//   5. Run leftovers: items that were added after the last check of the workers.
//
// Two races determine the order. An item that is added while the workers stop is seen by a worker,
// by step 5, or by the thread that added it: the fences of step 3 leave no fourth case. An
// operation may resume a coroutine that destroys the pool while the post() of that operation still
// runs: so shut_down() finally waits for these calls, after it has joined the threads and timers.
//
// Each part uses only parts in the rows above its own, and no part uses this class:
//
//   life_cycle, admission, exception_guard, pool_worker, timer_thread
//   submissions, delayed_tasks, worker_set, task_scheduler with its kinds, quiescence
//   item_runner
//   worker_loop
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/calls_in_flight.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/delayed_tasks.hpp>
#include <gyre/pool/detail/exception_guard.hpp>
#include <gyre/pool/detail/item_runner.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/quiescence.hpp>
#include <gyre/pool/detail/task_builder.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/detail/timer_thread.hpp>
#include <gyre/pool/detail/worker_loop.hpp>
#include <gyre/pool/detail/worker_set.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/executor.hpp>

#include <cstddef>
#include <memory>

namespace gyre::detail {

/// Thread-safety: all members may be called from any thread.
/// Lifetime: shared with the threads of the pool, so that a task may destroy the pool.
class pool_core final : public executor, public std::enable_shared_from_this<pool_core> {
 public:
  /// Constructs a pool and starts its workers.
  static std::shared_ptr<pool_core> make(thread_pool_options options);
  explicit pool_core(thread_pool_options&& options);
  ~pool_core();

  // The functions below return the parts of the pool.
  detail::life_cycle& life_cycle() noexcept { return life_cycle_; }
  detail::admission& admission() noexcept { return *admission_; }
  worker_set& workers() noexcept { return workers_; }

  // The functions below implement the functions of thread_pool with the same names.
  void post(operation& op) noexcept override;
  fork_queue* fork_queue_here() noexcept override {
    pool_worker* const self = this_worker;
    if (self == nullptr || self->pool != this || self->idle_peers == nullptr) return nullptr;
    return &static_cast<fork_queue&>(*self);  // the cast of a reference avoids a test for null
  }
  /// Whether the calling thread is a worker; false in a loop or a sync_wait() that a task runs.
  bool running_here() const noexcept override {
    const pool_worker* const self = worker_here();
    return self != nullptr && self->innermost_run == current_run();
  }
  timer_service* timers() noexcept override { return timers_.ensure_started(); }
  void resize(std::size_t workers) {
    workers_.resize(workers, *scheduler_);
    admission_->set_workers(workers);
  }
  void pause() noexcept;
  void resume() noexcept;
  std::size_t purge();
  bool wait_idle(steady_time deadline) noexcept {
    return quiescence_.wait(worker_here(), deadline);
  }
  bool stop(steady_time deadline);
  thread_pool_metrics metrics() const;

  /// Drains the pool, joins its threads, and detaches the calling thread if it is one of them.
  /// Called by the destructor of thread_pool.
  void shut_down() noexcept;

  // The submit functions use thread-locals, so no caller may be inlined into a coroutine.
  /// Submits for post(), where the caller blocks, and try_post(), where it fails.
  inline admission_result submit(task_builder builder, task_priority priority,
                                 admission::waiting caller);
  /// Submits for a coroutine, which must wait for a slot if the result is must_wait.
  admission_result submit_or_wait(task_builder builder, task_priority priority);
  /// Submits for a coroutine that has waited for `slot`.
  admission_result submit_admitted(task_builder builder, task_priority priority,
                                   semaphore_permit slot);
  admission_result submit_at(task_builder builder, steady_time deadline);

  /// The calling thread's worker if the thread is one of this pool's, otherwise null.
  pool_worker* worker_here() const noexcept {
    pool_worker* const self = this_worker;
    return self != nullptr && self->pool == this ? self : nullptr;
  }

  /// Runs items that the workers may have missed when they ended. Called after adding an item.
  void run_leftovers_if_ended() noexcept {
    if (life_cycle_.has_ended_after_store()) [[unlikely]]
      runner_.run_leftovers(*scheduler_);
  }

 private:
  admission_result submit_as_worker(pool_worker& self, const task_builder& builder,
                                    task_priority priority);
  admission_result submit_from_outside(const task_builder& builder, task_priority priority,
                                       admission::waiting caller, semaphore_permit slot = {});
  pool_task& make_task(const task_builder& builder, semaphore_permit& slot);
  bool takes_inbound(task_priority priority) const noexcept {
    return inbound_.queue != nullptr && priority == task_priority::normal;
  }
  bool store(const task_builder& builder, task_priority priority, semaphore_permit& slot);
  bool take_slot(semaphore_permit& slot) noexcept;
  bool take_slot(pool_worker& self, semaphore_permit& slot) noexcept;
  admission_result wait_for_slot(task_priority priority, steady_time& deadline,
                                 semaphore_permit& slot);
  admission_result run_here(const task_builder& builder);
  bool drop_task() noexcept;

  thread_pool_options options_;
  detail::life_cycle life_cycle_;
  const std::shared_ptr<detail::admission> admission_;  // threads that hold slots share it
  exception_guard guard_;
  item_runner runner_;
  worker_set workers_;
  timer_thread timers_;
  delayed_tasks delayed_tasks_;
  const std::unique_ptr<task_scheduler> scheduler_;
  const task_scheduler::inbound_queue inbound_;
  submissions* const cells_;  // the inbound queue; null if tasks are timed
  detail::quiescence quiescence_;
  calls_in_flight posts_;  // counts the calls of post() for operations
  const worker_loop::pool_parts worker_parts_;
};

[[gnu::always_inline]] inline admission_result pool_core::submit(task_builder builder,
                                                                 task_priority priority,
                                                                 admission::waiting caller) {
  if (pool_worker* const self = worker_here()) return submit_as_worker(*self, builder, priority);
  // This code inlines the usual case: a thread outside the pool that has a reserved slot.
  if (cells_ != nullptr && priority == task_priority::normal && builder.fits_cell() &&
      !life_cycle_.is_closed() &&
      cells_->try_push_built([&]() noexcept { return builder.in_cell(); })) [[likely]] {
    inbound_.idle->notify();
    run_leftovers_if_ended();
    return admission_result::granted;
  }
  return submit_from_outside(builder, priority, caller);
}

}  // namespace gyre::detail
