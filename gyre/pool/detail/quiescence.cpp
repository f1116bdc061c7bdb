// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/quiescence.hpp>

#include <gyre/base/fence.hpp>
#include <gyre/pool/detail/helper.hpp>
#include <gyre/pool/detail/pool_worker.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>
#include <gyre/pool/detail/worker_set.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gyre::detail {

using namespace std::chrono_literals;

// Sums the finished tasks before the submitted ones. Each task is counted as submitted before it
// can finish, so equal sums mean that no task was left between the two sums. For a task that waits
// here (`is_task`), waiting tasks count as finished; their number is read between the sums, so that
// no task is counted twice.
bool quiescence::is_reached(bool is_task) const noexcept {
  std::uint64_t finished_tasks =
      dropped_tasks_.load(std::memory_order_acquire) + run_outside_.load(std::memory_order_acquire);
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    finished_tasks += workers_[index].finished.get();
  }
  if (is_task) finished_tasks += waiting_tasks_.load(std::memory_order_seq_cst);
  std::uint64_t submitted_tasks = scheduler_.enqueued();
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    submitted_tasks += workers_[index].submitted.get();
  }
  return finished_tasks == submitted_tasks;
}

void quiescence::notify() noexcept {
  asymmetric_light_fence();
  // relaxed: the fences order the count.
  if (waiters_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  {
    const std::lock_guard lock(mutex_);
  }
  condition_.notify_all();
}

bool quiescence::wait(pool_worker* self, steady_time deadline) noexcept {
  // Tasks that were running when an outer wait of this thread began are counted by that wait.
  const std::size_t outer_depth =
      self == nullptr ? 0 : std::exchange(self->waiting_depth, self->depth);
  const std::size_t tasks = self == nullptr ? 0 : self->depth - outer_depth;
  const bool is_task = self != nullptr;
  waiting_tasks_.fetch_add(tasks, std::memory_order_seq_cst);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  asymmetric_heavy_fence();
  notify();
  bool is_done = false;
  while (!(is_done = is_reached(is_task))) {
    const steady_time current_time = monotonic_now();
    if (current_time >= deadline) break;
    if (self != nullptr && current_helper()->help_once()) continue;
    std::unique_lock lock(mutex_);
    is_done = is_reached(is_task);
    if (is_done) break;
    // A worker wakes regularly to look for work that it can run while it waits.
    const steady_time wake_time =
        self == nullptr ? deadline : std::min(deadline, current_time + 1ms);
    if (wake_time == steady_time::max()) {
      condition_.wait(lock);
    } else {
      condition_.wait_until(lock, wake_time);
    }
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  waiting_tasks_.fetch_sub(tasks, std::memory_order_seq_cst);
  if (self != nullptr) self->waiting_depth = outer_depth;
  return is_done;
}

}  // namespace gyre::detail
