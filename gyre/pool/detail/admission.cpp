// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/admission.hpp>

#include <gyre/base/error.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/pool/detail/submission_awaiter.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/time_limit_error.hpp>

#include <cassert>
#include <cerrno>
#include <system_error>

namespace gyre::detail {
namespace {

// How many tasks may wait without a slot, and how deep a submitter runs others.
constexpr std::size_t max_slotless = 1024;
constexpr std::size_t max_submitter_depth = 16;

constexpr int max_drop_attempts = 100;

// How deep the calling thread runs tasks that found no slot.
constinit thread_local std::size_t submitter_depth = 0;

void throw_unless_granted(admission_result result) {
  if (result != admission_result::granted) [[unlikely]]
    throw_refused(result);
}

/// A task that has its block already, in a cell of the submissions.
class queued_task {
 public:
  explicit queued_task(pool_task& task) noexcept : task_(&task) {}

  void operator()() noexcept { current_batch().add(work_item(*task_.release())); }

 private:
  std::unique_ptr<pool_task, task_dropper> task_;
};

}  // namespace

void throw_refused(admission_result reason) {
  switch (reason) {
    case admission_result::timed_out:
      throw std::system_error(make_error_code(time_limit_errc::expired),
                              "gyre::thread_pool: no slot for a task within block_timeout");
    case admission_result::closed:
      throw_system_error(ECANCELED, "gyre::thread_pool: drained or stopped");
    default: throw_system_error(EAGAIN, "gyre::thread_pool: full");
  }
}

// ---- the entrance

[[gnu::always_inline]] inline admission_result admission::submit(task_builder builder,
                                                                 task_priority priority,
                                                                 waiting caller) {
  if (pool_worker* const self = pool_.worker_here()) {
    return submit_as_worker(*self, builder, priority);
  }
  // The usual case, without a call: an outside thread with a slot in its stock.
  if (cells_ != nullptr && priority == task_priority::normal && builder.fits_cell() &&
      !pool_.life().is_closed() &&
      cells_->try_push_built([&]() noexcept { return builder.in_cell(); })) [[likely]] {
    inbound_.idle->notify();
    pool_.run_leftovers_if_ended();
    return admission_result::granted;
  }
  return submit_from_outside(builder, priority, caller);
}

[[gnu::noinline]] void submit(pool_core& pool, task_builder builder, task_priority priority) {
  throw_unless_granted(pool.admission().submit(builder, priority, admission::waiting::blocks));
}

[[gnu::noinline]] bool try_submit(pool_core& pool, task_builder builder, task_priority priority) {
  return pool.admission().submit(builder, priority, admission::waiting::fails) ==
         admission_result::granted;
}

[[gnu::noinline]] void submit_at(pool_core& pool, task_builder builder, steady_time when) {
  throw_unless_granted(pool.admission().submit_at(builder, when));
}

admission::admission(pool_core& pool) noexcept
    : pool_(pool),
      slots_(pool.slots()),
      inbound_(pool.scheduler().inbound()),
      cells_(pool.options().record_times ? nullptr : inbound_.queue) {}

admission_result admission::submit_from_outside(task_builder builder, task_priority priority,
                                                waiting caller, held_slot slot) {
  steady_time deadline{};
  for (;;) {
    if (pool_.life().is_closed()) {
      slot.reset();
      return pool_.runs_leftovers_here() ? run_here(builder) : refuse(admission_result::closed);
    }
    if (store(builder, priority, slot)) {
      pool_.run_leftovers_if_ended();
      return admission_result::granted;
    }
    switch (const admission_result next = when_full_outside(priority, caller, deadline, slot)) {
      case admission_result::granted: break;
      case admission_result::must_wait: return next;
      case admission_result::run_here: return run_here(builder);
      case admission_result::slotless:
        pool_.scheduler().enqueue(make_task(builder, slot), priority);
        pool_.run_leftovers_if_ended();
        return admission_result::granted;
      default: return refuse(next);
    }
  }
}

admission_result admission::submit_now(task_builder builder, task_priority priority) {
  pool_worker* const self = pool_.worker_here();
  return self != nullptr ? submit_as_worker(*self, builder, priority)
                         : submit_from_outside(builder, priority, waiting::suspends);
}

admission_result admission::submit_admitted(task_builder builder, task_priority priority) {
  held_slot slot(&slots_);
  if (pool_worker* const self = pool_.worker_here()) {
    slot.reset();
    return submit_as_worker(*self, builder, priority);
  }
  if (takes_inbound(priority) && !pool_.life().is_closed()) {
    static_cast<void>(slot.release());
    inbound_.queue->add_slots(1);
  }
  return submit_from_outside(builder, priority, waiting::fails, std::move(slot));
}

pool_task& admission::make_task(const task_builder& builder, held_slot& slot) {
  pool_task& task = builder.make(pool_.options().record_times);
  task.has_slot = slot.release() != nullptr;
  if (!task.has_slot) slotless_.fetch_add(1, std::memory_order_relaxed);
  return task;
}

// False, with the callable untouched, if there is no slot, and the caller has none.
bool admission::store(const task_builder& builder, task_priority priority, held_slot& slot) {
  if (takes_inbound(priority)) [[likely]] {
    const bool stored = cells_ != nullptr && builder.fits_cell()
                            ? cells_->try_push_built([&]() noexcept { return builder.in_cell(); })
                            : inbound_.queue->try_push_built([&] {
                                pool_task& task = builder.make(pool_.options().record_times);
                                task.has_slot = true;
                                return queued_task(task);
                              });
    if (stored) inbound_.idle->notify();
    return stored;
  }
  if (!take_slot(slot)) return false;
  pool_.scheduler().enqueue(make_task(builder, slot), priority);
  return true;
}

// A worker does not wait for a slot.
admission_result admission::submit_as_worker(pool_worker& self, task_builder builder,
                                             task_priority priority) {
  held_slot slot;
  for (;;) {
    if (pool_.life().refuses_all()) {
      return pool_.runs_leftovers_here() ? run_here(builder) : refuse(admission_result::closed);
    }
    if (take_slot(self, slot)) break;
    const admission_result next = when_full_within();
    if (next == admission_result::run_here) return run_here(builder);
    if (next == admission_result::full) return refuse(next);
    if (next == admission_result::slotless) break;
  }
  pool_task& task = make_task(builder, slot);
  if (priority == task_priority::normal) {
    pool_.scheduler().enqueue_own(self, task);
  } else {
    pool_.scheduler().enqueue(task, priority);
  }
  return admission_result::granted;
}

admission_result admission::submit_at(task_builder builder, steady_time when) {
  const waiting caller = pool_.worker_here() == nullptr ? waiting::blocks : waiting::fails;
  steady_time deadline{};
  held_slot slot;
  while (!take_slot(slot)) {
    if (pool_.life().is_closed()) return refuse(admission_result::closed);
    // A delayed task can neither be run at once nor wait without a slot.
    switch (const admission_result next =
                when_full_outside(task_priority::low, caller, deadline, slot)) {
      case admission_result::granted: break;
      case admission_result::timed_out:
      case admission_result::closed: return refuse(next);
      default: return refuse(admission_result::full);
    }
  }
  std::unique_ptr<pool_task, task_dropper> task(&builder.make(false));
  if (!pool_.delayed().add(when, *task)) return refuse(admission_result::closed);
  static_cast<void>(task.release());
  static_cast<void>(slot.release());
  return admission_result::granted;
}

void run_by_submitter(pool_core& pool, callable_ref callable) noexcept {
  pool.admission().run_here(callable);
}

void admission::run_here(callable_ref callable) noexcept {
  run_by_submitter_.fetch_add(1, std::memory_order_relaxed);
  ++submitter_depth;
  pool_.guard(callable);
  --submitter_depth;
}

admission_result admission::run_here(const task_builder& builder) {
  builder.run(pool_);
  return admission_result::granted;
}

admission_result admission::refuse(admission_result reason) noexcept {
  refused_.fetch_add(1, std::memory_order_relaxed);
  return reason;
}

// ---- full pools

bool admission::has_room_without_slot() const noexcept {
  return slotless_.load(std::memory_order_relaxed) < max_slotless;
}

admission_result admission::when_full_outside(task_priority priority, waiting caller,
                                              steady_time& deadline, held_slot& slot) {
  switch (pool_.options().when_full) {
    case when_full::reject: return admission_result::full;
    case when_full::caller_runs:
      if (caller == waiting::suspends) return admission_result::must_wait;
      // Tasks that submit the next one, and so on, would not give their stack back.
      return submitter_depth < max_submitter_depth || !has_room_without_slot()
                 ? admission_result::run_here
                 : admission_result::slotless;
    case when_full::drop_oldest:
      return drop_one() ? admission_result::granted : admission_result::full;
    case when_full::block: break;
  }
  if (caller == waiting::suspends) return admission_result::must_wait;
  if (caller == waiting::fails) return admission_result::full;
  if (deadline == steady_time{}) deadline = later(monotonic_now(), pool_.options().block_timeout);
  if (takes_inbound(priority)) return inbound_.queue->reserve_until(deadline);
  reclaim();
  const auto [result, taken] = slots_.wait_until(deadline, 1, [this] { reclaim(); });
  if (taken > 0) slot.reset(&slots_);
  return result;
}

admission_result admission::when_full_within() noexcept {
  const bool may_nest = submitter_depth < max_submitter_depth;
  switch (pool_.options().when_full) {
    case when_full::reject: return admission_result::full;
    case when_full::caller_runs:
      return may_nest ? admission_result::run_here : admission_result::slotless;
    case when_full::drop_oldest:
      return drop_one() ? admission_result::granted : admission_result::full;
    case when_full::block: break;
  }
  // A task that submits itself again and again would otherwise never give its stack back.
  return may_nest && !has_room_without_slot() ? admission_result::run_here
                                              : admission_result::slotless;
}

bool admission::drop_one() noexcept {
  // A task that is on its way from one queue to another is not seen.
  for (int attempt = 0; attempt < max_drop_attempts; ++attempt) {
    if (pool_task* const oldest = pool_.scheduler().take_least()) {
      pool_.drop(*oldest);
      return true;
    }
    if (slots_.free() > 0) return true;
    if (slots_.limit() <= pool_.delayed().size()) return false;  // delayed tasks have all slots
    thread_yield();
  }
  return false;
}

void admission::reclaim() noexcept {
  if (inbound_.queue != nullptr) inbound_.queue->reclaim();
}

// ---- coroutines

[[gnu::noinline]] bool slot_awaiter::submit_now(task_builder builder) {
  result_ = pool_->admission().submit_now(builder, priority_);
  return result_ != admission_result::must_wait;
}

bool slot_awaiter::wait(std::coroutine_handle<> awaiting, const task_context& context) noexcept {
  waiting = awaiting;
  context_ = &context;
  if (context.stop.stop_possible()) on_stop_.emplace(context.stop, cancel_wait{this});
  admission& gate = pool_->admission();
  gate.reclaim();
  const capacity::enqueue_result queued = pool_->slots().enqueue(*this);
  if (queued == capacity::enqueue_result::closed) gate.refuse(admission_result::closed);
  return queued == capacity::enqueue_result::waits || gives_way(context, awaiting);
}

[[gnu::noinline]] void slot_awaiter::finish(task_builder builder) {
  if (result_ == admission_result::must_wait) {
    on_stop_.reset();
    const task_context* const context = std::exchange(context_, nullptr);
    if (is_cancelled()) throw_cancelled(*context);
    if (granted() == 0) throw_refused(admission_result::closed);
    result_ = pool_->admission().submit_admitted(builder, priority_);
  }
  if (result_ != admission_result::granted) throw_refused(result_);
}

void slot_awaiter::cancel_wait::operator()() const noexcept {
  if (self->pool_->slots().cancel(*self)) self->context_->where->post(*self);
}

void slot_awaiter::wake(slot_waiter& waiter) noexcept {
  auto& self = static_cast<slot_awaiter&>(waiter);
  if (self.granted() == 0) self.pool_->admission().refuse(admission_result::closed);
  self.context_->where->post(self);
}

void slot_awaiter::abandon() noexcept {
  on_stop_.reset();
  [[maybe_unused]] const bool waited = pool_->slots().cancel(*this);
  assert(waited && "a coroutine was destroyed between its wake-up and its resumption");
}

}  // namespace gyre::detail
