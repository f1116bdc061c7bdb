// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/timer_thread.hpp>

#include <cassert>
#include <utility>
#include <vector>

namespace gyre::detail {

timer_thread::timer_thread(executor& target, std::string name)
    : operation([](operation& self) { static_cast<timer_thread&>(self).expire_timer(); }),
      target_(target),
      name_(std::move(name)) {}

timer_thread::~timer_thread() {
  stop();
  assert(!is_posted_ && "the executor of the timers has not run all operations");
}

timer_service* timer_thread::ensure_started() noexcept {
  // acquire: pairs with the release below; makes wheel_ and thread_ visible.
  if (is_started_.load(std::memory_order_acquire)) [[likely]]
    return this;
  const std::lock_guard lock(mutex_);
  try {
    if (wheel_ == nullptr) wheel_ = std::make_unique<timer_wheel>(now());
    if (!thread_) thread_.emplace(name_, std::vector<int>{}, [this] { run(); });
  } catch (...) {
    return nullptr;
  }
  // release: pairs with the acquire above.
  is_started_.store(true, std::memory_order_release);
  return this;
}

// Notifies with the lock held, because once another thread can see the timer, this object may be
// destroyed.
void timer_thread::start_timer(timer_operation& timer, steady_time deadline) noexcept {
  const std::lock_guard lock(mutex_);
  wheel_->start(timer, deadline);
  if (deadline >= wake_time_) return;
  wake_time_ = steady_time::min();
  condition_.notify_one();
}

bool timer_thread::cancel_timer(timer_operation& timer) noexcept {
  const std::lock_guard lock(mutex_);
  return wheel_->cancel(timer);
}

std::size_t timer_thread::pending() const noexcept {
  const std::lock_guard lock(mutex_);
  return wheel_ == nullptr ? 0 : wheel_->size();
}

std::size_t timer_thread::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    condition_.notify_one();
  }
  if (thread_) thread_->join();
  return pending();
}

void timer_thread::run() {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    const auto next_wakeup_time = wheel_->next_wakeup();
    if (is_posted_) {
      wake_time_ = steady_time::min();  // sleeps until expire_timer() has taken all due timers
      condition_.wait(lock);
    } else if (!next_wakeup_time) {
      wake_time_ = steady_time::max();
      condition_.wait(lock);
    } else if (now() < *next_wakeup_time) {
      wake_time_ = *next_wakeup_time;
      condition_.wait_until(lock, *next_wakeup_time);
    } else {
      is_posted_ = true;
      lock.unlock();
      target_.post(*this);
      lock.lock();
    }
  }
}

// Runs on a thread of the executor. Posts the operation for the next due timer before it calls the
// function of this timer, so that another thread may run the next one.
void timer_thread::expire_timer() {
  timer_node* due_timer = nullptr;
  bool more_are_due = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopping_) {
      const steady_time current_time = now();
      wheel_->advance(current_time, 1, [&](timer_node& timer) { due_timer = &timer; });
      const auto next_wakeup_time = wheel_->next_wakeup();
      more_are_due = next_wakeup_time && *next_wakeup_time <= current_time;
      if (!next_wakeup_time) wake_time_ = steady_time::max();
      if (next_wakeup_time && !more_are_due) condition_.notify_one();
    }
    is_posted_ = more_are_due;
  }
  if (more_are_due) target_.post(*this);
  if (due_timer != nullptr) static_cast<timer_operation*>(due_timer)->expire();
}

}  // namespace gyre::detail
