// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/shared_task.hpp>

#include <gyre/task/detail/cancelled.hpp>

#include <cassert>

namespace gyre::detail {

void shared_waiter::cancel::operator()() const noexcept { self->work_->cancel(*self); }

bool shared_waiter::await_ready() const noexcept { return work_->is_done(); }

bool shared_waiter::wait() noexcept {
  if (context_->stop.stop_possible()) on_stop_.emplace(context_->stop, cancel{this});
  return work_->enter(*this);
}

void shared_waiter::end_wait() {
  on_stop_.reset();
  context_ = nullptr;
  if (is_cancelled_) throw_cancelled();
}

void shared_waiter::abandon() noexcept {
  on_stop_.reset();
  work_->abandon(*this);
}

shared_work::shared_work(executor* target) noexcept
    : operation([](operation& self) {
        auto& work = static_cast<shared_work&>(self);
        work.start(work);
      }),
      target_(target) {
  stop = stop_source_.get_token();
  finished = [](task_context& self) noexcept { return static_cast<shared_work&>(self).end(); };
}

// Whether `waiter` has to wait. If so it may be gone.
bool shared_work::enter(shared_waiter& waiter) noexcept {
  std::unique_lock lock(mutex_);
  if (!is_done() && waiter.is_cancelled_) return false;
  ++awaiting_;
  if (!std::exchange(is_started_, true)) {
    lock.unlock();
    begin(*waiter.context_->where);
    lock.lock();
  }
  if (is_done()) {
    waiter.is_cancelled_ = false;
    return false;
  }
  if (waiter.is_cancelled_ && awaiting_ > 1) {
    --awaiting_;
    return false;
  }
  waiters_.push_back(waiter);
  if (std::exchange(waiter.is_cancelled_, false)) stop_unlocked(lock);
  return true;
}

// In the stop callback of `waiter`, which may not have entered yet, or may be woken already.
void shared_work::cancel(shared_waiter& waiter) noexcept {
  std::unique_lock lock(mutex_);
  if (is_done()) return;
  if (!waiter.is_linked()) {
    waiter.is_cancelled_ = true;
  } else if (awaiting_ > 1) {
    --awaiting_;
    waiter.unlink();
    waiter.is_cancelled_ = true;
    lock.unlock();
    waiter.context_->where->post(waiter);
  } else {
    stop_unlocked(lock);
  }
}

// In the destructor of `waiter`.
void shared_work::abandon(shared_waiter& waiter) noexcept {
  std::unique_lock lock(mutex_);
  assert(waiter.is_linked() && !is_done() &&
         "a coroutine was destroyed between its wake-up and its resumption");
  waiter.unlink();
  if (--awaiting_ == 0) stop_unlocked(lock);
}

// The work may end in it, and with it all who wait.
void shared_work::stop_unlocked(std::unique_lock<std::mutex>& lock) noexcept {
  acquire();
  lock.unlock();
  stop_source_.request_stop();
  release();
}

void shared_work::begin(executor& first_awaiters) noexcept {
  acquire();  // for the time it runs
  if (target_ != nullptr) {
    where = target_;
    target_->post(*this);
  } else {
    where = &first_awaiters;
    start(*this);
  }
}

std::coroutine_handle<> shared_work::end() noexcept {
  take_result();
  intrusive_list<shared_waiter> woken;
  {
    const std::lock_guard lock(mutex_);
    // release: pairs with the acquire in is_done(), for who sees it without the lock.
    is_done_.store(true, std::memory_order_release);
    woken.splice_back(waiters_);
  }
  // One that is where the work was goes on at once.
  std::coroutine_handle<> here;
  while (shared_waiter* const waiter = woken.pop_front()) {
    executor* const to = waiter->context_->where;
    if (to == where && !here) {
      here = waiter->waiting;
    } else {
      to->post(*waiter);
    }
  }
  release();
  return here ? here : std::noop_coroutine();
}

}  // namespace gyre::detail
