// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/worker_set.hpp>

#include <gyre/pool/detail/admission.hpp>
#include <gyre/pool/detail/future_state.hpp>
#include <gyre/pool/detail/task_scheduler.hpp>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace gyre::detail {

worker_set::worker_set(const void* pool, const thread_pool_options& options, life_cycle& state,
                       move_only_function<thread_body(pool_worker&)> make_body)
    : pool_(pool),
      options_(options),
      life_cycle_(state),
      make_body_(std::move(make_body)),
      workers_(new std::unique_ptr<pool_worker>[thread_pool_options::max_workers]) {}

worker_set::~worker_set() = default;

void worker_set::start(std::size_t index) {
  if (!workers_[index]) workers_[index] = std::make_unique<pool_worker>(pool_, index);
  pool_worker& worker = *workers_[index];
  if (options_.record_times && !worker.queue_wait) {
    worker.queue_wait.emplace();
    worker.run_time.emplace();
  }
  std::string name;
  if (!options_.name.empty()) name = options_.name + "-" + std::to_string(index);
  std::vector<int> cpus;
  if (!options_.cpus.empty()) cpus.push_back(options_.cpus[index % options_.cpus.size()]);
  worker.is_alive = true;
  // Precedes the start of the thread, so that any thread that sees a submission of the worker
  // counts it. release: pairs with the acquire in size(); makes the worker visible.
  size_.store(std::max(size_.load(std::memory_order_relaxed), index + 1),
              std::memory_order_release);
  try {
    worker.thread = std::make_unique<named_thread>(name, cpus, make_body_(worker));
  } catch (...) {
    worker.is_alive = false;
    throw;
  }
}

void worker_set::resize(std::size_t workers, task_scheduler& scheduler) {
  if (workers == 0 || workers > thread_pool_options::max_workers) {
    throw std::invalid_argument("gyre::thread_pool: 1 to 1024 workers");
  }
  std::vector<std::unique_ptr<named_thread>> joinable;
  {
    const std::lock_guard lock(mutex_);
    if (life_cycle_.is_closed()) throw_refused(admission_result::closed);
    const std::size_t old_target = target_.exchange(workers, std::memory_order_relaxed);
    for (std::size_t index = 0; index < workers; ++index) {
      if (workers_[index] && workers_[index]->is_alive) continue;
      if (workers_[index] && workers_[index]->thread) {
        retired_threads_.push_back(std::move(workers_[index]->thread));
      }
      try {
        start(index);
      } catch (...) {
        target_.store(std::max(index, std::min(old_target, workers)), std::memory_order_relaxed);
        throw;
      }
    }
    scheduler.resize(workers);
    if (workers < old_target) {
      life_cycle_.set_surplus(true);
    } else if (!has_surplus()) {
      life_cycle_.set_surplus(false);
    }
    std::swap(joinable, retired_threads_);
    std::erase_if(joinable, [this](auto& thread) {
      if (!thread->is_current()) return false;
      retired_threads_.push_back(std::move(thread));
      return true;
    });
  }
  for (const auto& thread : joinable) thread->join();
  scheduler.wake_all();
}

// Returns whether `self` must end. Checks under the lock that the worker is still surplus, because
// resize() on another thread may have raised the target.
bool worker_set::retire(pool_worker& self) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_surplus(self)) return false;
  self.is_alive = false;
  if (!has_surplus()) life_cycle_.set_surplus(false);
  return true;
}

// Whether there are more workers than the target. The caller must hold mutex_.
bool worker_set::has_surplus() const noexcept {
  for (std::size_t index = target(); index < size(); ++index) {
    if (workers_[index]->is_alive) return true;
  }
  return false;
}

// Takes the threads one at a time, because a list of them would need memory.
void worker_set::join() noexcept {
  const std::lock_guard join_lock(join_mutex_);
  while (const std::unique_ptr<named_thread> thread = take_thread()) {
    if (thread->is_current()) {
      thread->detach();
    } else {
      thread->join();
    }
  }
}

std::unique_ptr<named_thread> worker_set::take_thread() noexcept {
  const std::lock_guard lock(mutex_);
  if (!retired_threads_.empty()) {
    std::unique_ptr<named_thread> thread = std::move(retired_threads_.back());
    retired_threads_.pop_back();
    return thread;
  }
  for (std::size_t index = 0; index < size(); ++index) {
    if (workers_[index]->thread) return std::move(workers_[index]->thread);
  }
  return nullptr;
}

bool worker_set::begin_sleep(pool_worker& self, const future_state_base& task) noexcept {
  const std::lock_guard lock(mutex_);
  self.stuck_wait = &task;
  for (std::size_t index = 0; index < size(); ++index) {
    const pool_worker& worker = *workers_[index];
    if (!worker.is_alive) continue;
    // The task of a stuck worker exists until the worker calls on_wake_up(), which needs the mutex.
    if (worker.stuck_wait == nullptr || worker.stuck_wait->is_finished()) return true;
  }
  self.stuck_wait = nullptr;
  return false;
}

void worker_set::on_wake_up(pool_worker& self) noexcept {
  const std::lock_guard lock(mutex_);
  self.stuck_wait = nullptr;
}

}  // namespace gyre::detail
