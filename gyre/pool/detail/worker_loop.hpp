// SPDX-License-Identifier: Apache-2.0
// run_worker_loop: the loop of a worker, with its scheduler's members inlined.
#pragma once

#include <gyre/pool/detail/life_cycle.hpp>
#include <gyre/pool/detail/pool_worker.hpp>

namespace gyre::detail {

template <class Scheduler>
void run_worker_loop(Scheduler& scheduler, const life_cycle& life, pool_worker& self) noexcept {
  for (;;) {
    if (life.concerns_workers()) [[unlikely]] {
      if (!self.handle_state()) return;
    }
    if (const work_item item = scheduler.next(self)) {
      scheduler.stop_searching(self);
      if (life.is_paused()) [[unlikely]] {
        // Since the first look: tasks that are submitted to a paused pool do not start.
        scheduler.put_back(self, item);
      } else {
        self.run(item);
      }
    } else {
      self.reconcile();
      scheduler.wait_for_work(self);
    }
  }
}

}  // namespace gyre::detail
