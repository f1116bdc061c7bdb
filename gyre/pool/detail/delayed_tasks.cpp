// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/delayed_tasks.hpp>

#include <gyre/base/error.hpp>
#include <gyre/pool/detail/pool_core.hpp>

#include <cerrno>
#include <memory>

namespace gyre::detail {

bool delayed_tasks::add(steady_time when, pool_task& task) {
  timer_service* const timers = timers_.started();
  if (timers == nullptr) throw_system_error(EAGAIN, "gyre::thread_pool: no thread for its timers");
  auto delayed = std::make_unique<entry>(*this, task);
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  entries_.push_back(*delayed);
  ++size_;
  timers->start_timer(*delayed.release(), when);  // expires under the lock at the earliest
  return true;
}

void delayed_tasks::expire(timer_operation& timer) {
  const std::unique_ptr<entry> due(&static_cast<entry&>(timer));
  due->owner.remove(*due);
  due->owner.pool_.run_due(due->task);
}

void delayed_tasks::remove(entry& due) noexcept {
  const std::lock_guard lock(mutex_);
  static_cast<link&>(due).unlink();
  --size_;
}

std::size_t delayed_tasks::drop_all() noexcept {
  intrusive_queue<entry> dropped;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    intrusive_list<entry, link> expiring;
    while (entry* const each = entries_.pop_front()) {
      if (!timers_.cancel_timer(*each)) {
        expiring.push_back(*each);
        continue;
      }
      dropped.push_back(*each);
      ++count;
    }
    while (entry* const each = expiring.pop_front()) entries_.push_back(*each);
    size_ -= count;
  }
  while (const std::unique_ptr<entry> each{dropped.pop_front()}) pool_.drop_delayed(each->task);
  return count;
}

std::size_t delayed_tasks::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace gyre::detail
