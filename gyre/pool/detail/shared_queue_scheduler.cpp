// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/shared_queue_scheduler.hpp>

#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/detail/worker_loop.hpp>

#include <utility>

namespace gyre::detail {

template <class Idlers>
shared_queue_scheduler<Idlers>::shared_queue_scheduler(pool_core& pool)
    : life_(pool.life()), workers_(pool.workers()), lanes_(pool.options().aging) {}

template <class Idlers>
shared_queue_scheduler<Idlers>::~shared_queue_scheduler() = default;

template <class Idlers>
void shared_queue_scheduler<Idlers>::run_worker(pool_worker& self) noexcept {
  run_worker_loop(*this, life_, self);
}

// ---- adding

template <class Idlers>
void shared_queue_scheduler<Idlers>::enqueue(pool_task& task, task_priority priority) noexcept {
  std::unique_lock lock(lock_);
  lanes_.push(task, priority);
  ++enqueued_;
  wake_one(std::move(lock));
}

template <class Idlers>
void shared_queue_scheduler<Idlers>::enqueue(operation& op) noexcept {
  std::unique_lock lock(lock_);
  operations_.push_back(op);
  ++enqueued_;
  wake_one(std::move(lock));
}

template <class Idlers>
void shared_queue_scheduler<Idlers>::enqueue_own(pool_worker&, pool_task& task) noexcept {
  enqueue(task, task_priority::normal);
}

template <class Idlers>
void shared_queue_scheduler<Idlers>::wake_one(std::unique_lock<lock_type> lock) noexcept {
  if (idle_ == 0) return;
  ++wakeups_;
  lock.unlock();
  idlers_.wake_one();
}

template <class Idlers>
std::uint64_t shared_queue_scheduler<Idlers>::enqueued() const noexcept {
  const std::lock_guard lock(lock_);
  return enqueued_;
}

template <class Idlers>
std::uint64_t shared_queue_scheduler<Idlers>::wakeups() const noexcept {
  const std::lock_guard lock(lock_);
  return wakeups_;
}

// ---- taking

template <class Idlers>
work_item shared_queue_scheduler<Idlers>::take() noexcept {
  operation_next_ = !operation_next_;
  if (operation_next_) {
    if (operation* const op = operations_.pop_front()) return work_item(*op);
  }
  if (pool_task* const task = lanes_.take()) return work_item(*task);
  if (operation* const op = operations_.pop_front()) return work_item(*op);
  return {};
}

template <class Idlers>
work_item shared_queue_scheduler<Idlers>::next(pool_worker&) noexcept {
  const std::lock_guard lock(lock_);
  return take();
}

template <class Idlers>
void shared_queue_scheduler<Idlers>::put_back(pool_worker&, work_item item) noexcept {
  const std::lock_guard lock(lock_);
  if (item.is_task()) {
    lanes_.put_back(item.task());
  } else {
    operations_.push_front(item.op());
  }
}

template <class Idlers>
pool_task* shared_queue_scheduler<Idlers>::take_least() noexcept {
  const std::lock_guard lock(lock_);
  return lanes_.take_least();
}

template <class Idlers>
work_item shared_queue_scheduler<Idlers>::take_leftover() noexcept {
  const std::lock_guard lock(lock_);
  return take();
}

// ---- idle workers

template <class Idlers>
void shared_queue_scheduler<Idlers>::wait_for_work(pool_worker& self) noexcept {
  std::unique_lock lock(lock_);
  if (lanes_.size() > 0 || !operations_.empty()) return;
  if (life_.concerns_sleepers() || workers_.is_surplus(self)) return;
  if constexpr (Idlers::sleeps) self.parks.add(1);
  ++idle_;
  idlers_.wait(lock);
  --idle_;
}

template <class Idlers>
void shared_queue_scheduler<Idlers>::wake_all() noexcept {
  {
    const std::lock_guard lock(lock_);
  }  // a worker that is about to wait has looked, or will
  idlers_.wake_all();
}

template class shared_queue_scheduler<sleeping_idlers>;
template class shared_queue_scheduler<yielding_idlers>;

}  // namespace gyre::detail
