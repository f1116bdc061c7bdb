// SPDX-License-Identifier: Apache-2.0
// worker_loop: runs the items of a pool on the thread of one worker.
#pragma once

#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/exception_guard.hpp>
#include <gyre/pool/detail/helper.hpp>
#include <gyre/pool/detail/item_runner.hpp>
#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/quiescence.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/detail/worker_set.hpp>
#include <gyre/pool/pool_options.hpp>

namespace gyre::detail {

/// Thread-safety: belongs to the worker's thread.
class worker_loop final : public helper {
 public:
  /// The parts of the pool that a worker uses.
  struct pool_parts {
    thread_pool_options& options;
    const detail::life_cycle& life_cycle;
    admission& slots;
    exception_guard& guard;
    worker_set& workers;
    task_scheduler& queues;
    detail::quiescence& quiescence;
    item_runner& runner;
  };

  /// Lifetime: the worker and the parts must outlive this object.
  worker_loop(pool_worker& worker, const pool_parts& parts) noexcept
      : self_(worker), pool_(parts) {}

  /// Runs items until the worker must end.
  void run() noexcept;

  bool help_once() noexcept override;
  bool begin_sleep(const future_state_base& task) noexcept override;
  void on_wake_up() noexcept override;

 private:
  class nested_items;

  template <class Scheduler>
  void run_items(Scheduler& scheduler) noexcept;
  bool handle_state() noexcept;
  bool retire() noexcept;
  void release_slots_and_notify() noexcept;

  pool_worker& self_;
  const pool_parts& pool_;
};

}  // namespace gyre::detail
