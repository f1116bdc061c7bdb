// SPDX-License-Identifier: Apache-2.0
// pool_core: a thread pool behind its public face, put together from its parts.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/calls_in_flight.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/capacity.hpp>
#include <gyre/pool/detail/delayed_tasks.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_task.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/quiescence.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/detail/timer_thread.hpp>
#include <gyre/pool/detail/worker_set.hpp>
#include <gyre/pool/pool_options.hpp>
#include <gyre/task/executor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

namespace gyre::detail {

/// Nothing is lost at the end: a worker ends when all submitted tasks have finished; a submitter
/// looks, behind a fence, whether the pool has ended, and then runs what it finds in the queues.
///
/// Thread-safety: all members may be called from any thread.
/// Lifetime: shared with the threads of the pool, so that a task may destroy the pool.
class pool_core final : public executor, public std::enable_shared_from_this<pool_core> {
 public:
  /// With all its workers.
  static std::shared_ptr<pool_core> make(thread_pool_options options);
  explicit pool_core(thread_pool_options&& options);
  virtual ~pool_core();

  // Its parts.
  thread_pool_options& options() noexcept { return options_; }
  life_cycle& life() noexcept { return life_; }
  capacity& slots() noexcept { return slots_; }
  detail::admission& admission() noexcept { return admission_; }
  worker_set& workers() noexcept { return workers_; }
  task_scheduler& scheduler() noexcept { return *scheduler_; }
  detail::quiescence& quiescence() noexcept { return quiescence_; }
  delayed_tasks& delayed() noexcept { return delayed_; }

  // As thread_pool's members.
  void post(operation& op) noexcept override;
  fork_queue* fork_queue_here() noexcept override {
    pool_worker* const self = this_worker;
    if (self == nullptr || &self->core != this || self->thieves == nullptr) return nullptr;
    return &static_cast<fork_queue&>(*self);  // of a reference: no further test for null
  }
  /// Not in a loop or a sync_wait() that a task runs.
  bool running_here() const noexcept override {
    const pool_worker* const self = worker_here();
    return self != nullptr && self->run_here == current_run();
  }
  timer_service* timers() noexcept override { return timers_.started(); }
  void pause() noexcept;
  void resume() noexcept;
  std::size_t purge();
  bool wait_idle(steady_time deadline) noexcept {
    return quiescence_.wait(worker_here(), deadline);
  }
  bool stop(steady_time deadline);
  thread_pool_metrics metrics() const;

  /// For the pool's destructor: drains it, and joins its threads or lets them go.
  void shut_down() noexcept;

  /// Calls `function`, and on_exception with its exception.
  template <class F>
  void guard(F&& function) noexcept {
    try {
      static_cast<void>(function());
    } catch (...) {
      exceptions_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a statistic
      options_.on_exception(std::current_exception());
    }
  }

  /// The calling thread's worker, if it is one of this pool.
  pool_worker* worker_here() const noexcept {
    pool_worker* const self = this_worker;
    return self != nullptr && &self->core == this ? self : nullptr;
  }

  /// Drops a task that a scheduler gave out.
  void drop(pool_task& task) noexcept;
  void drop_while_stopping(pool_task& task) noexcept;
  // For delayed_tasks.
  void run_due(pool_task& task) noexcept;
  void drop_delayed(pool_task& task) noexcept;

  /// After an item was added that the workers may have overlooked at their end.
  void run_leftovers_if_ended() noexcept {
    if (life_.ended_meanwhile()) [[unlikely]]
      run_leftovers();
  }
  /// Runs all items that are left, once the workers have ended.
  void run_leftovers() noexcept;
  /// Whether the calling thread is within run_leftovers(), and so runs what it submits.
  bool runs_leftovers_here() const noexcept;

 private:
  thread_pool_options options_;
  life_cycle life_;
  capacity slots_;
  worker_set workers_;
  timer_thread timers_;
  delayed_tasks delayed_;
  const std::unique_ptr<task_scheduler> scheduler_;
  detail::admission admission_;
  detail::quiescence quiescence_;
  calls_in_flight posts_;  // of operations

  std::atomic<std::uint64_t> exceptions_{0};
  std::atomic<std::uint64_t> delayed_dropped_{0};
  std::atomic<bool> dropped_while_stopping_{false};
};

}  // namespace gyre::detail
