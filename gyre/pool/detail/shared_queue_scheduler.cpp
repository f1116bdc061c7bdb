// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/shared_queue_pool.hpp>

namespace gyre::detail {

template <class Idlers>
shared_queue_pool<Idlers>::shared_queue_pool(thread_pool_options&& options)
    : pool_core(std::move(options)), lanes_(options_.aging) {}

template <class Idlers>
shared_queue_pool<Idlers>::~shared_queue_pool() = default;

template <class Idlers>
void shared_queue_pool<Idlers>::work(pool_worker& self) noexcept {
  run_worker(*this, self);
}

// ---- adding

template <class Idlers>
void shared_queue_pool<Idlers>::enqueue(pool_task& task, task_priority priority) noexcept {
  std::unique_lock lock(lock_);
  lanes_.push(task, priority);
  ++enqueued_;
  wake_one(std::move(lock));
}

template <class Idlers>
void shared_queue_pool<Idlers>::enqueue(operation& op) noexcept {
  std::unique_lock lock(lock_);
  operations_.push_back(op);
  ++enqueued_;
  wake_one(std::move(lock));
}

template <class Idlers>
void shared_queue_pool<Idlers>::enqueue_own(pool_worker&, pool_task& task) noexcept {
  enqueue(task, task_priority::normal);
}

template <class Idlers>
bool shared_queue_pool<Idlers>::offer_own(pool_worker&, operation&) noexcept {
  return false;
}

template <class Idlers>
void shared_queue_pool<Idlers>::wake_one(std::unique_lock<lock_type> lock) noexcept {
  if (resting_ == 0) return;
  ++wakeups_;
  lock.unlock();
  idlers_.wake_one();
}

template <class Idlers>
std::uint64_t shared_queue_pool<Idlers>::enqueued() const noexcept {
  const std::lock_guard lock(lock_);
  return enqueued_;
}

template <class Idlers>
std::uint64_t shared_queue_pool<Idlers>::wakeups() const noexcept {
  const std::lock_guard lock(lock_);
  return wakeups_;
}

// ---- taking

template <class Idlers>
work_item shared_queue_pool<Idlers>::take() noexcept {
  operation_next_ = !operation_next_;
  if (operation_next_) {
    if (operation* const op = operations_.pop_front()) return work_item(*op);
  }
  if (pool_task* const task = lanes_.take()) return work_item(*task);
  if (operation* const op = operations_.pop_front()) return work_item(*op);
  return {};
}

template <class Idlers>
work_item shared_queue_pool<Idlers>::next(pool_worker&) noexcept {
  const std::lock_guard lock(lock_);
  return take();
}

template <class Idlers>
void shared_queue_pool<Idlers>::return_taken(pool_worker&, work_item item) noexcept {
  const std::lock_guard lock(lock_);
  if (item.is_task()) {
    lanes_.put_back(item.task());
  } else {
    operations_.push_front(item.op());
  }
}

template <class Idlers>
pool_task* shared_queue_pool<Idlers>::take_waiting() noexcept {
  const std::lock_guard lock(lock_);
  return lanes_.take_least();
}

template <class Idlers>
work_item shared_queue_pool<Idlers>::take_left() noexcept {
  const std::lock_guard lock(lock_);
  return take();
}

// ---- resting

template <class Idlers>
void shared_queue_pool<Idlers>::rest(pool_worker& self) noexcept {
  std::unique_lock lock(lock_);
  if (lanes_.size() > 0 || !operations_.empty() || must_rise(self)) return;
  if constexpr (Idlers::sleep) self.parks.add(1);
  ++resting_;
  idlers_.wait(lock);
  --resting_;
}

template <class Idlers>
void shared_queue_pool<Idlers>::wake_all() noexcept {
  {
    const std::lock_guard lock(lock_);
  }  // who is about to wait has looked, or will
  idlers_.wake_all();
}

template class shared_queue_pool<sleeping_idlers>;
template class shared_queue_pool<yielding_idlers>;

}  // namespace gyre::detail
