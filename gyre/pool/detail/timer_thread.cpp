// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/timer_thread.hpp>

#include <cassert>
#include <utility>
#include <vector>

namespace gyre::detail {

timer_thread::timer_thread(executor& target, std::string name)
    : operation([](operation& self) { static_cast<timer_thread&>(self).expire_one(); }),
      target_(target),
      name_(std::move(name)) {}

timer_thread::~timer_thread() {
  stop();
  assert(!expiring_ && "the executor of the timers has not run all operations");
}

timer_service* timer_thread::started() noexcept {
  // acquire: pairs with the release below.
  if (started_.load(std::memory_order_acquire)) [[likely]]
    return this;
  const std::lock_guard lock(mutex_);
  try {
    if (wheel_ == nullptr) wheel_ = std::make_unique<timer_wheel>(now());
    if (!thread_) thread_.emplace(name_, std::vector<int>{}, [this] { run(); });
  } catch (...) {
    return nullptr;
  }
  // release: pairs with the acquire above.
  started_.store(true, std::memory_order_release);
  return this;
}

// The notification is made with the lock held: once the timer can be seen, this may be destroyed.
void timer_thread::start_timer(timer_operation& timer, steady_time deadline) noexcept {
  const std::lock_guard lock(mutex_);
  wheel_->start(timer, deadline);
  if (deadline >= sleeps_until_) return;
  sleeps_until_ = steady_time::min();
  changed_.notify_one();
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
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_) thread_->join();
  return pending();
}

void timer_thread::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto soonest = wheel_->next_wakeup();
    if (expiring_) {
      sleeps_until_ = steady_time::min();  // until expire_one() has come to the end
      changed_.wait(lock);
    } else if (!soonest) {
      sleeps_until_ = steady_time::max();
      changed_.wait(lock);
    } else if (now() < *soonest) {
      sleeps_until_ = *soonest;
      changed_.wait_until(lock, *soonest);
    } else {
      expiring_ = true;
      lock.unlock();
      target_.post(*this);
      lock.lock();
    }
  }
}

// Runs on a thread of the executor; meanwhile another may take the next timer that is due.
void timer_thread::expire_one() {
  timer_node* due = nullptr;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      const steady_time present = now();
      wheel_->advance(present, 1, [&](timer_node& timer) { due = &timer; });
      const auto soonest = wheel_->next_wakeup();
      more = soonest && *soonest <= present;
      if (!soonest) sleeps_until_ = steady_time::max();
      if (soonest && !more) changed_.notify_one();
    }
    expiring_ = more;
  }
  if (more) target_.post(*this);
  if (due != nullptr) static_cast<timer_operation*>(due)->expire();
}

}  // namespace gyre::detail
