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

// The finished tasks are read before the submitted ones: equal sums mean that none was left in
// between, as every task is counted as submitted before it can finish. For a task that waits,
// others that wait count as finished; they are read in between, and so counted once.
bool quiescence::is_reached(bool is_task) const noexcept {
  std::uint64_t finished =
      dropped_.load(std::memory_order_acquire) + run_outside_.load(std::memory_order_acquire);
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    finished += workers_[index].finished.get();
  }
  if (is_task) finished += waiting_tasks_.load(std::memory_order_seq_cst);
  std::uint64_t submitted = scheduler_.enqueued();
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    submitted += workers_[index].submitted.get();
  }
  return finished == submitted;
}

void quiescence::notify() noexcept {
  asymmetric_light_fence();
  // relaxed: ordered by the fences.
  if (waiters_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  {
    const std::lock_guard lock(mutex_);
  }
  changed_.notify_all();
}

bool quiescence::wait(pool_worker* self, steady_time deadline) noexcept {
  // An outer wait of this thread has counted the tasks below it.
  const std::size_t counted =
      self == nullptr ? 0 : std::exchange(self->depth_that_waits, self->depth);
  const std::size_t tasks = self == nullptr ? 0 : self->depth - counted;
  const bool is_task = self != nullptr;
  waiting_tasks_.fetch_add(tasks, std::memory_order_seq_cst);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  asymmetric_heavy_fence();
  notify();
  bool reached = false;
  while (!(reached = is_reached(is_task))) {
    const steady_time now = monotonic_now();
    if (now >= deadline) break;
    if (self != nullptr && current_helper()->help_once()) continue;
    std::unique_lock lock(mutex_);
    reached = is_reached(is_task);
    if (reached) break;
    // A task that waits looks for work to help with now and then.
    const steady_time until = self == nullptr ? deadline : std::min(deadline, now + 1ms);
    if (until == steady_time::max()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, until);
    }
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  waiting_tasks_.fetch_sub(tasks, std::memory_order_seq_cst);
  if (self != nullptr) self->depth_that_waits = counted;
  return reached;
}

}  // namespace gyre::detail
