// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/pool_core.hpp>

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <gyre/base/error.hpp>
#include <gyre/exec/detail/helper.hpp>
#include <gyre/exec/detail/outcome.hpp>
#include <gyre/exec/detail/shared_queue_pool.hpp>
#include <gyre/exec/detail/stealing_pool.hpp>

namespace gyre::detail {
namespace {

constinit thread_local pool_worker* this_worker = nullptr;
constinit thread_local taken_items* this_taking = nullptr;
constinit thread_local const pool_core* settled_here = nullptr;

// Tasks that may wait without a place, and how deep a submitter runs others that found none.
constexpr std::size_t most_unplaced = 1024;
constexpr std::size_t most_submitter_depth = 16;

constexpr int most_drop_tries = 100;

// How long a wait within a task sleeps before it looks for work to help with again.
constexpr std::chrono::milliseconds help_interval{1};

// submitter_depth() of a thread that is no worker of the pool.
constinit thread_local std::size_t depth_outside = 0;

std::size_t usable_cpus() noexcept {
  cpu_set_t set;
  if (::pthread_getaffinity_np(::pthread_self(), sizeof set, &set) != 0) return 1;
  return std::max<std::size_t>(1, static_cast<std::size_t>(CPU_COUNT(&set)));
}

// The address of the stack below which a worker does not help: a quarter of the stack, 256 KiB at
// most, is for what it does otherwise.
std::uintptr_t end_of_helping() noexcept {
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return 0;
  void* lowest = nullptr;
  std::size_t size = 0;
  ::pthread_attr_getstack(&attributes, &lowest, &size);
  ::pthread_attr_destroy(&attributes);
  return reinterpret_cast<std::uintptr_t>(lowest) +
         std::min<std::size_t>(size / 4, std::size_t{256} << 10);
}

void report_and_terminate(const std::exception_ptr& error) {
  terminate_with(error, "left a task of a pool");
}

void check_workers(std::size_t workers) {
  if (workers == 0 || workers > thread_pool_options::most_workers) {
    throw std::invalid_argument("gyre::thread_pool: 1 to 1024 workers");
  }
}

}  // namespace

[[gnu::noinline]] pool_worker* current_pool_worker() noexcept { return this_worker; }

taken_items& taking() noexcept { return *this_taking; }

taking_scope::taking_scope(taken_items& to) noexcept : outer_(std::exchange(this_taking, &to)) {}
taking_scope::~taking_scope() { this_taking = outer_; }

task_timing::task_timing(steady_time submitted) noexcept : worker_(this_worker) {
  if (worker_ == nullptr) return;
  started_ = monotonic_now();
  if (worker_->queue_wait) worker_->queue_wait->record(started_ - submitted);
}
task_timing::~task_timing() {
  if (worker_ != nullptr && worker_->run_time) {
    worker_->run_time->record(monotonic_now() - started_);
  }
}

void throw_refused(admission why) {
  switch (why) {
    case admission::timed_out:
      throw_system_error(ETIMEDOUT, "gyre::thread_pool: no place for a task");
    case admission::closed: throw_system_error(ECANCELED, "gyre::thread_pool: drained or stopped");
    default: throw_system_error(EAGAIN, "gyre::thread_pool: full");
  }
}

pool_core::settling::settling(const pool_core& pool) noexcept
    : outer_(std::exchange(settled_here, &pool)) {}
pool_core::settling::~settling() { settled_here = outer_; }

[[gnu::noinline]] bool pool_core::settles_here() const noexcept { return settled_here == this; }

bool pool_worker::help_once() noexcept { return core.help(*this); }
bool pool_worker::may_sleep(const outcome_base& task) noexcept {
  return core.may_sleep(*this, task);
}
void pool_worker::woke_up() noexcept { core.woke_up(*this); }

// ---- a pool's life

std::shared_ptr<pool_core> pool_core::make(thread_pool_options options) {
  if (options.capacity == 0) {
    throw std::invalid_argument("gyre::thread_pool: a capacity of at least 1 is needed");
  }
  if (options.workers == 0) {
    options.workers = std::min(usable_cpus(), thread_pool_options::most_workers);
  }
  const std::size_t workers = options.workers;
  check_workers(workers);
  if (!options.on_exception) options.on_exception = report_and_terminate;

  std::shared_ptr<pool_core> made;
  switch (options.scheduler) {
    case scheduler::stealing: made = std::make_shared<stealing_pool>(std::move(options)); break;
    case scheduler::blocking: made = std::make_shared<blocking_pool>(std::move(options)); break;
    case scheduler::spinning: made = std::make_shared<spinning_pool>(std::move(options)); break;
  }
  try {
    made->resize(workers);
  } catch (...) {
    made->stop(steady_time::max());
    throw;
  }
  return made;
}

pool_core::pool_core(thread_pool_options&& options)
    : options_(std::move(options)),
      places_(options_.capacity),
      timers_(*this, options_.name.empty() ? "" : options_.name + "-timers"),
      delayed_(*this, timers_),
      slots_(new std::unique_ptr<pool_worker>[thread_pool_options::most_workers]) {}

pool_core::~pool_core() = default;

void pool_core::start_worker(std::size_t index) {
  if (!slots_[index]) slots_[index] = std::make_unique<pool_worker>(*this, index);
  pool_worker& worker = *slots_[index];
  if (options_.record_times && !worker.queue_wait) {
    worker.queue_wait.emplace();
    worker.run_time.emplace();
  }
  std::string name;
  if (!options_.name.empty()) name = options_.name + "-" + std::to_string(index);
  std::vector<int> cpus;
  if (!options_.cpus.empty()) cpus.push_back(options_.cpus[index % options_.cpus.size()]);
  worker.alive = true;
  // Before it can submit anything. release: pairs with the acquire in slots().
  slots_used_.store(std::max(slots_used_.load(std::memory_order_relaxed), index + 1),
                    std::memory_order_release);
  try {
    worker.thread = std::make_unique<named_thread>(
        name, cpus, [keeping = shared_from_this(), &worker] { keeping->live(worker); });
  } catch (...) {
    worker.alive = false;
    throw;
  }
}

void pool_core::live(pool_worker& self) noexcept {
  // A worker that retires may have a successor in its place before its thread has ended.
  const std::size_t index = self.index;
  const auto call = [&](auto& hook) {
    if (hook) guarded([&] { hook(index); });
  };
  {
    this_worker = &self;
    self.stack_reserve = end_of_helping();
    const helping_scope helping(self);
    call(options_.on_start);
    work(self);
    this_worker = nullptr;
  }
  call(options_.on_stop);
}

void pool_core::resize(std::size_t workers) {
  check_workers(workers);
  std::vector<std::unique_ptr<named_thread>> ended;
  {
    const std::lock_guard lock(workers_mutex_);
    if ((attention() & closed_bit) != 0) throw_refused(admission::closed);
    const std::size_t before = target_.exchange(workers, std::memory_order_relaxed);
    for (std::size_t index = 0; index < workers; ++index) {
      if (slots_[index] && slots_[index]->alive) continue;
      if (slots_[index] && slots_[index]->thread) {
        retired_.push_back(std::move(slots_[index]->thread));
      }
      try {
        start_worker(index);
      } catch (...) {
        target_.store(std::max(index, std::min(before, workers)), std::memory_order_relaxed);
        throw;
      }
    }
    resized(workers);
    if (workers < before) {
      raise(resized_bit);
    } else if (!has_surplus()) {
      lower(resized_bit);
    }
    std::swap(ended, retired_);
    std::erase_if(ended, [this](auto& thread) {
      if (!thread->is_current()) return false;
      retired_.push_back(std::move(thread));
      return true;
    });
  }
  for (const auto& thread : ended) thread->join();
  wake_all();
}

// Under a lock, as growing may overtake: a worker that is asked to end goes on if it is wanted
// again.
bool pool_core::retire(pool_worker& self) noexcept {
  settle(self);
  leave_queues(self);
  {
    const std::lock_guard lock(workers_mutex_);
    if (self.index < workers()) return false;
    self.alive = false;
    if (!has_surplus()) lower(resized_bit);
  }
  wake_all();  // what waits in its deque is for the others
  return true;
}

// Under the mutex.
bool pool_core::has_surplus() const noexcept {
  for (std::size_t index = workers(); index < slots(); ++index) {
    if (slots_[index]->alive) return true;
  }
  return false;
}

void pool_core::raise(std::uint32_t bits) noexcept {
  attention_.fetch_or(bits, std::memory_order_seq_cst);
  attention_.notify_all();
}

void pool_core::lower(std::uint32_t bits) noexcept {
  attention_.fetch_and(~bits, std::memory_order_seq_cst);
  attention_.notify_all();
}

void pool_core::pause() noexcept {
  if ((attention() & closed_bit) == 0) raise(paused_bit);
  // A stop that came in between has looked for the bit already, or finds it.
  if ((attention() & closed_bit) != 0) resume();
}

void pool_core::resume() noexcept {
  lower(paused_bit);
  wake_all();
}

bool pool_core::attend(pool_worker& self) noexcept {
  for (;;) {
    const std::uint32_t bits = attention();
    if ((bits & ended_bit) != 0) {
      settle(self);
      leave_queues(self);
      settle_late();
      return false;
    }
    if (self.index >= workers() && retire(self)) return false;
    if ((bits & paused_bit) == 0) return true;
    settle(self);
    attention_.wait(bits, std::memory_order_acquire);
  }
}

bool pool_core::stop(steady_time deadline) {
  // Without grace a paused pool starts nothing more.
  raise(deadline <= monotonic_now() ? closed_bit | dropping_bit : closed_bit);
  lower(paused_bit);
  places_.close();
  wake_all();
  std::size_t dropped = delayed_.drop_all();
  if (!wait_idle(deadline)) {
    raise(dropping_bit);
    dropped += purge();
    static_cast<void>(wait_idle(steady_time::max()));
  }
  raise(ended_bit);
  asymmetric_heavy_fence();  // pairs with the light one in settle_if_ended()
  wake_all();
  if (worker_here() == nullptr) join_workers();
  settle_late();
  tell_done();
  return dropped == 0 && !dropped_while_stopping_.load(std::memory_order_relaxed);
}

void pool_core::leave() noexcept {
  static_cast<void>(stop(steady_time::max()));
  join_workers();
  timers_.stop();
  settle_late();
  posts_.wait_for_end();
}

// The second caller waits until the first has joined them. One at a time, as a list would need memory.
void pool_core::join_workers() noexcept {
  const std::lock_guard joining(join_mutex_);
  while (const std::unique_ptr<named_thread> thread = take_worker_thread()) {
    if (thread->is_current()) {
      thread->detach();
    } else {
      thread->join();
    }
  }
}

std::unique_ptr<named_thread> pool_core::take_worker_thread() noexcept {
  const std::lock_guard lock(workers_mutex_);
  if (!retired_.empty()) {
    std::unique_ptr<named_thread> last = std::move(retired_.back());
    retired_.pop_back();
    return last;
  }
  for (std::size_t index = 0; index < slots(); ++index) {
    if (slots_[index]->thread) return std::move(slots_[index]->thread);
  }
  return nullptr;
}

// ---- running

void pool_core::run(pool_worker& self, work_item item) noexcept {
  if (item.is_task() && (attention() & dropping_bit) != 0) [[unlikely]] {
    drop(item.task());
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  self.started.add(1);
  ++self.depth;
  if (item.is_task()) {
    pool_task& task = item.task();
    task.has_place ? give_back_place(self) : leave_unplaced();
    guarded([&] { task.execute(); });
  } else {
    item.op().execute();
  }
  --self.depth;
  self.finished.add(1);
}

bool pool_core::help(pool_worker& self) noexcept {
  // What is run lies above what waits: not where little stack is left for it.
  self.out_of_stack =
      reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < self.stack_reserve;
  if (self.out_of_stack) return false;
  if ((attention() & paused_bit) != 0) return false;
  const work_item item = next(self);
  if (item && !paused()) {
    run(self, item);
    return true;
  }
  if (item) return_taken(self, item);
  settle(self);
  return false;
}

bool pool_core::may_sleep(pool_worker& self, const outcome_base& task) noexcept {
  if (!self.out_of_stack || task.pool() != this) return true;
  const std::lock_guard lock(workers_mutex_);
  self.stuck_on = &task;
  for (std::size_t index = 0; index < slots(); ++index) {
    const pool_worker& each = slot(index);
    if (!each.alive) continue;
    // What a worker is stuck on stays until it has woken up, and says so under the mutex.
    if (each.stuck_on == nullptr || each.stuck_on->settled()) return true;
  }
  self.stuck_on = nullptr;
  return false;
}

void pool_core::woke_up(pool_worker& self) noexcept {
  if (!self.out_of_stack) return;
  const std::lock_guard lock(workers_mutex_);
  self.stuck_on = nullptr;
}

void pool_core::report_exception() noexcept {
  exceptions_.fetch_add(1, std::memory_order_relaxed);
  options_.on_exception(std::current_exception());
}

void pool_core::settle(pool_worker& self) noexcept {
  if (self.free_places > 0) places_.give_back(std::exchange(self.free_places, 0));
  tell_done();
}

// ---- waiting until all is done

// What has finished is read before what was submitted: equal sums mean that nothing was left in
// between, as every task is counted when submitted, before it can finish. For a task that waits,
// others that do the same count as finished; they are read in between, so that none is counted
// twice.
bool pool_core::all_done(const pool_worker* waiting) const noexcept {
  std::uint64_t finished =
      dropped_.load(std::memory_order_acquire) + settled_late_.load(std::memory_order_acquire);
  for (std::size_t index = 0; index < slots(); ++index) finished += slot(index).finished.get();
  if (waiting != nullptr) finished += waiting_within_.load(std::memory_order_seq_cst);
  std::uint64_t submitted = enqueued();
  for (std::size_t index = 0; index < slots(); ++index) submitted += slot(index).submitted.get();
  return finished == submitted;
}

void pool_core::tell_done() noexcept {
  asymmetric_light_fence();
  // relaxed: ordered by the fences.
  if (done_waiters_.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  {
    const std::lock_guard lock(done_mutex_);
  }
  done_.notify_all();
}

bool pool_core::wait_idle(steady_time deadline) noexcept {
  pool_worker* const self = worker_here();
  // What lies below an outer wait of this thread was counted by that.
  const std::size_t counted =
      self == nullptr ? 0 : std::exchange(self->depth_that_waits, self->depth);
  const std::size_t mine = self == nullptr ? 0 : self->depth - counted;
  waiting_within_.fetch_add(mine, std::memory_order_seq_cst);
  done_waiters_.fetch_add(1, std::memory_order_seq_cst);
  asymmetric_heavy_fence();
  tell_done();
  bool done = all_done(self);
  while (!done) {
    const steady_time now = monotonic_now();
    if (now >= deadline) break;
    if (self != nullptr && self->help_once()) {
      done = all_done(self);
      continue;
    }
    std::unique_lock lock(done_mutex_);
    done = all_done(self);
    if (done) break;
    // A task that waits looks for work to help with now and then.
    const steady_time until = self == nullptr ? deadline : std::min(deadline, now + help_interval);
    if (until == steady_time::max()) {
      done_.wait(lock);
    } else {
      done_.wait_until(lock, until);
    }
    lock.unlock();
    done = all_done(self);
  }
  done_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  waiting_within_.fetch_sub(mine, std::memory_order_seq_cst);
  if (self != nullptr) self->depth_that_waits = counted;
  return done;
}

void pool_core::settle_late() noexcept {
  const settling here(*this);
  bool any = false;
  while (const work_item item = take_left()) {
    if (item.is_task()) {
      pool_task& task = item.task();
      leave_place(task.has_place);
      guarded([&] { task.execute(); });
    } else {
      inline_executor().post(item.op());
    }
    settled_late_.fetch_add(1, std::memory_order_release);
    any = true;
  }
  if (any) tell_done();
}

// ---- submitting

void pool_core::post(operation& op) noexcept {
  if ((attention() & ended_bit) != 0) [[unlikely]] {
    inline_executor().post(op);
    return;
  }
  const calls_in_flight::call here(posts_);
  enqueue(op);
  settle_if_ended();
}

bool pool_core::take_place(pool_worker& self) noexcept {
  if (self.free_places > 0) {
    --self.free_places;
    return true;
  }
  return places_.take(1);
}

void pool_core::give_back_place(pool_worker& self) noexcept {
  if (++self.free_places >= places_.chunk() || places_.urgent()) {
    places_.give_back(std::exchange(self.free_places, 0));
  }
}

std::size_t& pool_core::submitter_depth() const noexcept {
  pool_worker* const self = worker_here();
  return self != nullptr ? self->submitter_depth : depth_outside;
}

auto pool_core::when_full_outside(task_priority priority, bool may_wait, steady_time& deadline,
                                  bool& placed) -> next_step {
  switch (options_.when_full) {
    case gyre::when_full::reject: return next_step::full;
    case gyre::when_full::caller_runs:
      // A task that submits the next one, and so on, would not give its stack back.
      return submitter_depth() < most_submitter_depth ||
                     unplaced_.load(std::memory_order_relaxed) >= most_unplaced
                 ? next_step::run_here
                 : next_step::go_without;
    case gyre::when_full::drop_oldest: return drop_one() ? next_step::retry : next_step::full;
    case gyre::when_full::block: break;
  }
  if (!may_wait) return next_step::full;
  if (deadline == steady_time{}) deadline = later(monotonic_now(), options_.block_timeout);
  admission how{};
  if (submissions_ != nullptr && priority == task_priority::normal) {
    how = submissions_->reserve_until(deadline);
  } else {
    reclaim();
    how = places_.wait_until(deadline, 1, [this] { reclaim(); }).how;
    placed = how == admission::granted;
  }
  switch (how) {
    case admission::granted: return next_step::retry;
    case admission::closed: return next_step::closed;
    default: return next_step::timed_out;
  }
}

auto pool_core::when_full_within(const pool_worker& self) noexcept -> next_step {
  switch (options_.when_full) {
    case gyre::when_full::reject: return next_step::full;
    case gyre::when_full::caller_runs:
      return self.submitter_depth < most_submitter_depth ? next_step::run_here
                                                         : next_step::go_without;
    case gyre::when_full::drop_oldest: return drop_one() ? next_step::retry : next_step::full;
    case gyre::when_full::block: break;
  }
  // A task that submits itself again and again would otherwise never give its stack back.
  return unplaced_.load(std::memory_order_relaxed) >= most_unplaced &&
                 self.submitter_depth < most_submitter_depth
             ? next_step::run_here
             : next_step::go_without;
}

void pool_core::reclaim() noexcept {
  if (submissions_ != nullptr) submissions_->reclaim();
}

bool pool_core::drop_one() noexcept {
  // A task that is on its way from one queue to another is not seen.
  for (int tries = 0; tries < most_drop_tries; ++tries) {
    if (pool_task* const oldest = take_waiting()) {
      drop(*oldest);
      return true;
    }
    const std::size_t free = places_.free();
    if (free > 0) return true;
    if (places_.capacity() <= delayed_.size()) return false;  // no other task has a place
    thread_yield();
  }
  return false;
}

void pool_core::drop(pool_task& task) noexcept {
  const bool had_place = task.has_place;
  task.drop();
  leave_place(had_place);
  dropped_.fetch_add(1, std::memory_order_acq_rel);
  tell_done();  // it may have been the last, and no worker has seen it
}

std::size_t pool_core::purge() {
  // Not more than there are now: others may go on submitting.
  const std::size_t most = metrics().waiting;
  std::size_t dropped = 0;
  for (; dropped < most; ++dropped) {
    pool_task* const waiting = take_waiting();
    if (waiting == nullptr) break;
    drop(*waiting);
  }
  return dropped;
}

admission pool_core::refuse(admission why) noexcept {
  refused_.fetch_add(1, std::memory_order_relaxed);
  return why;
}

bool pool_core::offer(operation& op) noexcept {
  pool_worker* const self = worker_here();
  return self != nullptr && offer_own(*self, op);
}

bool pool_core::retract(operation& op) noexcept {
  pool_worker* const self = worker_here();
  if (self == nullptr || !self->deque.pop_if(work_item(op))) return false;
  self->submitted.set(self->submitted.get() - 1);
  return true;
}

// ---- time

// Its timer was counted as an operation, so it is not counted itself.
void pool_core::run_due(pool_task& task) noexcept {
  if ((attention() & dropping_bit) != 0) {
    drop_delayed(task);
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  places_.give_back(1);
  guarded([&] { task.execute(); });
}

void pool_core::drop_delayed(pool_task& task) noexcept {
  task.drop();
  places_.give_back(1);
  delayed_dropped_.fetch_add(1, std::memory_order_relaxed);
}

// ---- figures

thread_pool_metrics pool_core::metrics() const {
  // relaxed, here and where they are counted: each figure stands for itself.
  const std::uint64_t delayed_dropped = delayed_dropped_.load(std::memory_order_relaxed);
  thread_pool_metrics all{
      .submitted = enqueued() + delayed_dropped,
      .dropped = dropped_.load(std::memory_order_relaxed) + delayed_dropped,
      .refused = refused_.load(std::memory_order_relaxed),
      .run_by_submitter = run_by_submitter_.load(std::memory_order_relaxed),
      .exceptions = exceptions_.load(std::memory_order_relaxed),
      .wakeups = wakeups(),
      .delayed = delayed_.size(),
      .workers = workers(),
  };
  const std::uint64_t late = settled_late_.load(std::memory_order_relaxed);
  all.started = all.finished = late;
  for (std::size_t index = 0; index < slots(); ++index) {
    const pool_worker& worker = slot(index);
    all.finished += worker.finished.get();
    all.started += worker.started.get();
    all.steals += worker.steals.get();
    all.parks += worker.parks.get();
    all.submitted += worker.submitted.get();
    if (worker.queue_wait) all.queue_wait.merge(*worker.queue_wait);
    if (worker.run_time) all.run_time.merge(*worker.run_time);
  }
  const std::uint64_t gone = all.started + all.dropped;
  all.waiting = all.submitted > gone ? static_cast<std::size_t>(all.submitted - gone) : 0;
  return all;
}

}  // namespace gyre::detail
