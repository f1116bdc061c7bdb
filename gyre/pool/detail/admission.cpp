// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/admission.hpp>

#include <gyre/base/error.hpp>
#include <gyre/pool/detail/pool_core.hpp>

#include <cerrno>
#include <memory>

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
      throw_system_error(ETIMEDOUT, "gyre::thread_pool: no slot for a task within block_timeout");
    case admission_result::closed:
      throw_system_error(ECANCELED, "gyre::thread_pool: drained or stopped");
    default: throw_system_error(EAGAIN, "gyre::thread_pool: full");
  }
}

// ---- the entrance

// The usual case: an outside thread with a slot in its stock. Else false, the callable untouched.
[[gnu::always_inline]] inline bool try_push(pool_core& pool, task_builder builder,
                                            task_priority priority) {
  submissions* const cells = pool.admission().cells();
  if (cells == nullptr || priority != task_priority::normal || !builder.fits_cell()) return false;
  if (pool.life().is_closed()) return false;
  if (!cells->try_push_built([&]() noexcept { return builder.in_cell(); })) return false;
  pool.admission().inbound().idle->notify();
  pool.run_leftovers_if_ended();
  return true;
}

[[gnu::noinline]] void submit(pool_core& pool, task_builder builder, task_priority priority) {
  if (pool_worker* const self = pool.worker_here()) {
    throw_unless_granted(pool.admission().submit_as_worker(*self, builder, priority));
  } else if (!try_push(pool, builder, priority)) [[unlikely]] {
    throw_unless_granted(
        pool.admission().submit_from_outside(builder, priority, admission::waiting::blocks));
  }
}

[[gnu::noinline]] bool try_submit(pool_core& pool, task_builder builder, task_priority priority) {
  if (pool_worker* const self = pool.worker_here()) {
    return pool.admission().submit_as_worker(*self, builder, priority) == admission_result::granted;
  }
  return try_push(pool, builder, priority) ||
         pool.admission().submit_from_outside(builder, priority, admission::waiting::fails) ==
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
                                                waiting caller, bool has_slot) {
  steady_time deadline{};
  for (;;) {
    if (pool_.life().is_closed()) {
      if (has_slot) slots_.release(1);
      return pool_.runs_leftovers_here() ? run_here(builder) : refuse(admission_result::closed);
    }
    if (store(builder, priority, has_slot)) {
      pool_.run_leftovers_if_ended();
      return admission_result::granted;
    }
    switch (when_full_outside(priority, caller, deadline, has_slot)) {
      case next_step::retry: break;
      case next_step::must_wait: return admission_result::must_wait;
      case next_step::go_slotless: {
        pool_task& task = make_task(builder);
        add_slotless();
        pool_.scheduler().enqueue(task, priority);
        pool_.run_leftovers_if_ended();
        return admission_result::granted;
      }
      case next_step::run_here: return run_here(builder);
      case next_step::full: return refuse(admission_result::full);
      case next_step::timed_out: return refuse(admission_result::timed_out);
      case next_step::closed: return refuse(admission_result::closed);
    }
  }
}

admission_result admission::submit_now(task_builder builder, task_priority priority) {
  pool_worker* const self = pool_.worker_here();
  return self != nullptr ? submit_as_worker(*self, builder, priority)
                         : submit_from_outside(builder, priority, waiting::suspends);
}

admission_result admission::submit_admitted(task_builder builder, task_priority priority) {
  if (pool_worker* const self = pool_.worker_here()) {
    slots_.release(1);
    return submit_as_worker(*self, builder, priority);
  }
  const bool to_stock = takes_inbound(priority) && !pool_.life().is_closed();
  if (to_stock) inbound_.queue->add_slots(1);
  return submit_from_outside(builder, priority, waiting::fails, !to_stock);
}

pool_task& admission::make_task(const task_builder& builder) const {
  return pool_.options().record_times ? builder.make_timed() : builder.make();
}

// False, with the callable untouched, if there is no slot, and the caller has none.
bool admission::store(const task_builder& builder, task_priority priority, bool& has_slot) {
  if (takes_inbound(priority)) [[likely]] {
    const bool stored = cells_ != nullptr && builder.fits_cell()
                            ? cells_->try_push_built([&]() noexcept { return builder.in_cell(); })
                            : inbound_.queue->try_push_built([&] {
                                pool_task& task = make_task(builder);
                                task.has_slot = true;
                                return queued_task(task);
                              });
    if (stored) inbound_.idle->notify();
    return stored;
  }
  if (!std::exchange(has_slot, false) && !slots_.try_acquire(1)) return false;
  pool_task* task = nullptr;
  try {
    task = &make_task(builder);
  } catch (...) {
    slots_.release(1);
    throw;
  }
  task->has_slot = true;
  pool_.scheduler().enqueue(*task, priority);
  return true;
}

// A worker does not wait for a slot.
admission_result admission::submit_as_worker(pool_worker& self, task_builder builder,
                                             task_priority priority) {
  bool has_slot = false;
  for (;;) {
    if (pool_.life().refuses_all()) {
      return pool_.runs_leftovers_here() ? run_here(builder) : refuse(admission_result::closed);
    }
    has_slot = take_slot(self);
    if (has_slot) break;
    const next_step step = when_full_within();
    if (step == next_step::run_here) return run_here(builder);
    if (step == next_step::full) return refuse(admission_result::full);
    if (step == next_step::go_slotless) break;
  }
  pool_task* task = nullptr;
  try {
    task = &make_task(builder);
  } catch (...) {
    if (has_slot) release_slot_later(self);
    throw;
  }
  task->has_slot = has_slot;
  if (!has_slot) add_slotless();
  if (priority == task_priority::normal) {
    pool_.scheduler().enqueue_own(self, *task);
  } else {
    pool_.scheduler().enqueue(*task, priority);
  }
  return admission_result::granted;
}

admission_result admission::submit_at(task_builder builder, steady_time when) {
  const waiting caller = pool_.worker_here() == nullptr ? waiting::blocks : waiting::fails;
  steady_time deadline{};
  bool has_slot = false;
  while (!has_slot && !slots_.try_acquire(1)) {
    if (pool_.life().is_closed()) return refuse(admission_result::closed);
    // A delayed task can neither be run at once nor wait without a slot.
    switch (when_full_outside(task_priority::low, caller, deadline, has_slot)) {
      case next_step::retry: break;
      case next_step::timed_out: return refuse(admission_result::timed_out);
      case next_step::closed: return refuse(admission_result::closed);
      default: return refuse(admission_result::full);
    }
  }
  pool_task* task = nullptr;
  const auto undo = [&]() noexcept {
    if (task != nullptr) task->drop();
    slots_.release(1);
  };
  try {
    task = &builder.make();
    if (pool_.delayed().add(when, *task)) return admission_result::granted;
  } catch (...) {
    undo();
    throw;
  }
  undo();
  return refuse(admission_result::closed);
}

void run_by_submitter(pool_core& pool, callable_ref callable) noexcept {
  pool.admission().run_here(callable);
}

void admission::run_here(callable_ref callable) noexcept {
  run_by_submitter_.fetch_add(1, std::memory_order_relaxed);
  ++submitter_depth;
  pool_.reporter().guard(callable);
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

auto admission::when_full_outside(task_priority priority, waiting caller, steady_time& deadline,
                                  bool& has_slot) -> next_step {
  switch (pool_.options().when_full) {
    case when_full::reject: return next_step::full;
    case when_full::caller_runs:
      if (caller == waiting::suspends) return next_step::must_wait;
      // Tasks that submit the next one, and so on, would not give their stack back.
      return submitter_depth < max_submitter_depth || !has_room_without_slot()
                 ? next_step::run_here
                 : next_step::go_slotless;
    case when_full::drop_oldest: return drop_one() ? next_step::retry : next_step::full;
    case when_full::block: break;
  }
  if (caller == waiting::suspends) return next_step::must_wait;
  if (caller == waiting::fails) return next_step::full;
  if (deadline == steady_time{}) deadline = later(monotonic_now(), pool_.options().block_timeout);
  admission_result result{};
  if (takes_inbound(priority)) {
    result = inbound_.queue->reserve_until(deadline);
  } else {
    reclaim();
    result = slots_.wait_until(deadline, 1, [this] { reclaim(); }).result;
    has_slot = result == admission_result::granted;
  }
  switch (result) {
    case admission_result::granted: return next_step::retry;
    case admission_result::closed: return next_step::closed;
    default: return next_step::timed_out;
  }
}

auto admission::when_full_within() noexcept -> next_step {
  const bool may_nest = submitter_depth < max_submitter_depth;
  switch (pool_.options().when_full) {
    case when_full::reject: return next_step::full;
    case when_full::caller_runs: return may_nest ? next_step::run_here : next_step::go_slotless;
    case when_full::drop_oldest: return drop_one() ? next_step::retry : next_step::full;
    case when_full::block: break;
  }
  // A task that submits itself again and again would otherwise never give its stack back.
  return may_nest && !has_room_without_slot() ? next_step::run_here : next_step::go_slotless;
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

}  // namespace gyre::detail
