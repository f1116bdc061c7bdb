// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/delayed_tasks.hpp>

#include <gyre/base/error.hpp>

#include <cerrno>
#include <memory>

namespace gyre::detail {

bool delayed_tasks::add(steady_time deadline, pool_task& task) {
  timer_service* const timers = timers_.ensure_started();
  if (timers == nullptr) throw_system_error(EAGAIN, "gyre::thread_pool: no thread for its timers");
  auto new_entry = std::make_unique<entry>(*this, task);
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  entries_.push_back(*new_entry);
  ++size_;
  timers->start_timer(*new_entry.release(), deadline);  // expire() waits until the lock is released
  return true;
}

void delayed_tasks::expire(timer_operation& timer) {
  const std::unique_ptr<entry> entry_owner(&static_cast<entry&>(timer));
  delayed_tasks& owner = entry_owner->owner;
  {
    const std::lock_guard lock(owner.mutex_);
    entry_owner->unlink();
    --owner.size_;
  }
  owner.runner_.run_due(entry_owner->task);
}

std::size_t delayed_tasks::drop_all() noexcept {
  intrusive_list<entry> cancelled_entries;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (auto position = entries_.begin(); position != entries_.end();) {
      entry& current = *position++;
      if (!timers_.cancel_timer(current)) continue;  // expire() already runs for this entry
      current.unlink();
      cancelled_entries.push_back(current);
      ++count;
    }
    size_ -= count;
  }
  while (const std::unique_ptr<entry> entry_owner{cancelled_entries.pop_front()})
    runner_.drop_delayed(entry_owner->task);
  return count;
}

std::size_t delayed_tasks::size() const noexcept {
  const std::lock_guard lock(mutex_);
  return size_;
}

}  // namespace gyre::detail
