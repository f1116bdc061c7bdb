// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/detail/shared_work.hpp>

#include <gyre/task/detail/cancelled.hpp>

#include <cassert>
#include <stdexcept>

namespace gyre::detail {
namespace {

// The last shared_work in this thread's list of those to be stopped, or null: see
// unlock_and_stop().
constinit thread_local shared_work* last_to_stop = nullptr;

[[noreturn, gnu::cold]] void throw_refused() {
  throw std::system_error(std::make_error_code(std::errc::owner_dead),
                          "gyre::shared_task: the last awaiter has left, and the work was stopped");
}

}  // namespace

void throw_empty_shared_task() {
  throw std::logic_error("gyre::shared_task: awaited a handle that is empty");
}

void shared_waiter::cancel::operator()() const noexcept { self->work_->cancel_waiter(*self); }

void shared_child::append_children(std::vector<task_context*>& contexts) {
  contexts.push_back(&work_);
}

bool shared_waiter::await_ready() const noexcept { return work_->is_ready(); }

// Starts the wait. Returns the coroutine to resume on this thread.
std::coroutine_handle<> shared_waiter::wait() noexcept {
  work_->acquire();
  progress_ = progress::suspended;
  if (context_->stop.stop_possible()) on_stop_.emplace(context_->stop, cancel{this});
  const std::coroutine_handle<> self = waiting;
  const task_context& context = *context_;
  // If the coroutine waits, it may have been resumed and have destroyed this waiter.
  const std::coroutine_handle<> coroutine = work_->add_waiter(*this);
  if (coroutine == self && gives_way(context, self)) return std::noop_coroutine();
  return coroutine;
}

void shared_waiter::take_wait_outcome() {
  on_stop_.reset();
  child_.reset();
  progress_ = progress::resumed;
  if (outcome_ == outcome::result) return;
  if (outcome_ == outcome::cancelled || context_->stop.stop_requested()) throw_cancelled(*context_);
  throw_refused();
}

void shared_waiter::leave_work() noexcept {
  if (progress_ == progress::suspended) {
    on_stop_.reset();
    work_->remove_waiter(*this);
  }
  work_->release();
}

shared_work::shared_work(executor* target, bool has_owner) noexcept
    : operation([](operation& self) {
        auto& work = static_cast<shared_work&>(self);
        resume(work.start(work));
      }),
      target_(target),
      awaiter_count_(has_owner ? 1 : 0) {
  stop = stop_source_.get_token();
  finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
    const std::coroutine_handle<> coroutine = static_cast<shared_work&>(self).wake_awaiters();
    return coroutine ? coroutine : std::noop_coroutine();
  };
}

void shared_work::start_owned(void (*discard)(operation& self) noexcept) {
  // relaxed: the work is not shared yet.
  phase_.store(phase::running, std::memory_order_relaxed);
  where = target_;
  acquire();  // the work owns itself while it runs
  target_->post_discardable(*this, discard);
}

void shared_work::remove_owner() noexcept {
  std::unique_lock lock(mutex_);
  // relaxed: phase_ changes only with the lock held.
  if (--awaiter_count_ == 0 && phase_.load(std::memory_order_relaxed) < phase::done) {
    unlock_and_stop(lock);
  }
}

bool shared_work::request_stop() noexcept {
  acquire();  // all owners may release the work within request_stop()
  const bool is_first = stop_source_.request_stop();
  release();
  return is_first;
}

// Adds `waiter`, whose coroutine has suspended. Returns the coroutine to resume on this thread:
// that of `waiter` if it need not wait, the work's if the waiter is the first, else none. If it
// waits, the waiter may have been destroyed when this function returns.
std::coroutine_handle<> shared_work::add_waiter(shared_waiter& waiter) noexcept {
  std::unique_lock lock(mutex_);
  // relaxed, here and below: phase_ changes only with the lock held.
  const phase state = phase_.load(std::memory_order_relaxed);
  if (state == phase::done) {
    waiter.outcome_ = shared_waiter::outcome::result;
    return waiter.waiting;
  }
  if (waiter.outcome_ == shared_waiter::outcome::cancelled) return waiter.waiting;
  if (state == phase::stopping || state == phase::stopped) {
    waiter.outcome_ = shared_waiter::outcome::refused;
    return waiter.waiting;
  }
  waiters_.push_back(waiter);
  ++awaiter_count_;
  if (state == phase::running) return std::noop_coroutine();
  phase_.store(phase::running, std::memory_order_relaxed);
  where = target_ != nullptr ? target_ : waiter.context_->where;
  acquire();  // the work owns itself while it runs
  lock.unlock();
  if (target_ == nullptr) return start(*this);
  target_->post(*this);
  return std::noop_coroutine();
}

// Called by the stop callback of `waiter`, which may not have been added yet, or may have been
// woken already.
void shared_work::cancel_waiter(shared_waiter& waiter) noexcept {
  std::unique_lock lock(mutex_);
  if (phase_.load(std::memory_order_relaxed) >= phase::done) return;
  if (!waiter.is_linked()) {
    waiter.outcome_ = shared_waiter::outcome::cancelled;
  } else if (awaiter_count_ > 1) {
    --awaiter_count_;
    waiter.unlink();
    waiter.outcome_ = shared_waiter::outcome::cancelled;
    lock.unlock();
    waiter.context_->where->post(waiter);
  } else {
    unlock_and_stop(lock);
  }
}

// Removes `waiter`, and asks the work to stop if no awaiter is left. Called by the destructor of
// `waiter`.
void shared_work::remove_waiter(shared_waiter& waiter) noexcept {
  std::unique_lock lock(mutex_);
  assert(waiter.is_linked() && !is_done() &&
         "a coroutine was destroyed between its wake-up and its resumption");
  waiter.unlink();
  if (--awaiter_count_ == 0) unlock_and_stop(lock);
}

// Asks the work to stop, and refuses further awaiters. The work and its awaiters may end within the
// call.
//
// Work that is asked to stop may itself be the last awaiter of other work, which is then stopped,
// too. For a chain of shared_work objects these calls would nest; instead the outermost call stops
// them one after the other.
void shared_work::unlock_and_stop(std::unique_lock<std::mutex>& lock) noexcept {
  if (phase_.load(std::memory_order_relaxed) == phase::stopping) return;
  phase_.store(phase::stopping, std::memory_order_relaxed);
  acquire();
  lock.unlock();
  if (shared_work* const last = std::exchange(last_to_stop, this); last != nullptr) {
    last->next_to_stop_ = this;
    return;
  }
  for (shared_work* work = this; work != nullptr;) {
    work->stop_source_.request_stop();
    shared_work* const next_work = work->next_to_stop_;
    if (next_work == nullptr) last_to_stop = nullptr;
    work->release();
    work = next_work;
  }
}

std::coroutine_handle<> shared_work::wake_awaiters() noexcept {
  intrusive_list<shared_waiter> waiters;
  {
    const std::lock_guard lock(mutex_);
    const bool was_stopped =
        has_failed() && phase_.load(std::memory_order_relaxed) == phase::stopping;
    // release: pairs with the acquire in is_done() and is_ready(); makes the result visible to
    // readers without the lock.
    phase_.store(was_stopped ? phase::stopped : phase::done, std::memory_order_release);
    waiters.splice_back(waiters_);
  }
  // The caller resumes one waiter that runs on the executor of the work; the other waiters are
  // posted.
  std::coroutine_handle<> next_coroutine;
  while (shared_waiter* const waiter = waiters.pop_front()) {
    executor* const target = waiter->context_->where;
    if (target == where && !next_coroutine) {
      next_coroutine = waiter->waiting;
    } else {
      target->post(*waiter);
    }
  }
  release();
  return next_coroutine;
}

}  // namespace gyre::detail
