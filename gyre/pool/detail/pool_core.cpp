// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/pool_core.hpp>

#include <gyre/base/available_parallelism.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/error.hpp>
#include <gyre/base/fence.hpp>
#include <gyre/pool/detail/shared_queue_scheduler.hpp>
#include <gyre/pool/detail/stealing_scheduler.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::detail {
namespace {

constinit thread_local drained_batch* innermost_batch = nullptr;
constinit thread_local const pool_core* leftovers_of = nullptr;

std::unique_ptr<task_scheduler> make_scheduler(pool_core& pool) {
  switch (pool.options().scheduler) {
    case scheduler::blocking: return std::make_unique<blocking_scheduler>(pool);
    case scheduler::spinning: return std::make_unique<spinning_scheduler>(pool);
    case scheduler::stealing: break;
  }
  return std::make_unique<stealing_scheduler>(pool);
}

/// A thread that runs leftovers may submit more, which it runs as well.
class leftover_scope {
 public:
  explicit leftover_scope(const pool_core& pool) noexcept
      : outer_(std::exchange(leftovers_of, &pool)) {}
  leftover_scope& operator=(leftover_scope&&) = delete;
  ~leftover_scope() { leftovers_of = outer_; }

 private:
  const pool_core* outer_;
  nested_run run_;
};

}  // namespace

drained_batch& current_batch() noexcept { return *innermost_batch; }

drained_batch::drained_batch(pool_core& pool) noexcept
    : pool_(pool), outer_(std::exchange(innermost_batch, this)) {}
drained_batch::~drained_batch() { innermost_batch = outer_; }

void drained_batch::run_in_place(callable_ref callable) noexcept {
  pool_.slots().release(1);
  pool_.guard(callable);
  pool_.quiescence().count_run_outside();
}

// ---- a pool's life

std::shared_ptr<pool_core> pool_core::make(thread_pool_options options) {
  if (options.capacity == 0) {
    throw std::invalid_argument("gyre::thread_pool: a capacity of at least 1 is needed");
  }
  require_not_negative(options.block_timeout, "gyre::thread_pool: block_timeout");
  require_not_negative(options.aging, "gyre::thread_pool: aging");
  if (options.workers == 0) {
    options.workers =
        std::min<std::size_t>(available_parallelism(), thread_pool_options::most_workers);
  }
  if (!options.on_exception) {
    options.on_exception = [](const std::exception_ptr& error) {
      terminate_with(error, "left a task of a pool");
    };
  }
  auto pool = std::make_shared<pool_core>(std::move(options));
  try {
    pool->workers_.resize(pool->options_.workers);
  } catch (...) {
    pool->stop(steady_time::max());
    throw;
  }
  return pool;
}

pool_core::pool_core(thread_pool_options&& options)
    : options_(std::move(options)),
      slots_(options_.capacity),
      workers_(*this),
      timers_(*this, options_.name.empty() ? "" : options_.name + "-timers"),
      delayed_(*this, timers_),
      scheduler_(make_scheduler(*this)),
      admission_(*this),
      quiescence_(workers_, *scheduler_) {}

pool_core::~pool_core() = default;

void pool_core::pause() noexcept {
  if (!life_.pause()) scheduler_->wake_all();
}

void pool_core::resume() noexcept {
  life_.resume();
  scheduler_->wake_all();
}

bool pool_core::stop(steady_time deadline) {
  // Without grace a paused pool starts nothing more.
  deadline <= monotonic_now() ? life_.close_and_drop() : life_.close();
  slots_.close();
  scheduler_->wake_all();
  std::size_t dropped = delayed_.drop_all();
  if (!wait_idle(deadline)) {
    life_.drop();
    dropped += purge();
    static_cast<void>(wait_idle(steady_time::max()));
  }
  life_.end();
  asymmetric_heavy_fence();  // pairs with the light one in life_cycle::ended_meanwhile()
  scheduler_->wake_all();
  if (worker_here() == nullptr) workers_.join();
  run_leftovers();
  quiescence_.notify();
  return dropped == 0 && !dropped_while_stopping_.load(std::memory_order_relaxed);
}

void pool_core::shut_down() noexcept {
  static_cast<void>(stop(steady_time::max()));
  workers_.join();
  timers_.stop();
  run_leftovers();
  posts_.wait_for_end();
}

[[gnu::noinline]] bool pool_core::runs_leftovers_here() const noexcept {
  return leftovers_of == this;
}

void pool_core::run_leftovers() noexcept {
  const leftover_scope here(*this);
  bool any = false;
  while (const work_item item = scheduler_->take_leftover()) {
    if (item.is_task()) {
      pool_task& task = item.task();
      admission_.release_slot(task.has_slot);
      guard([&] { task.execute(); });
    } else {
      inline_executor().post(item.op());
    }
    quiescence_.count_run_outside();
    any = true;
  }
  if (any) quiescence_.notify();
}

// ---- tasks and operations

void pool_core::post(operation& op) noexcept {
  if (life_.has_ended()) [[unlikely]] {
    inline_executor().post(op);
    return;
  }
  const calls_in_flight::call here(posts_);
  scheduler_->enqueue(op);
  run_leftovers_if_ended();
}

void pool_core::drop(pool_task& task) noexcept {
  const bool had_slot = task.has_slot;
  task.drop();
  admission_.release_slot(had_slot);
  quiescence_.count_dropped();
  quiescence_.notify();  // it may have been the last, and no worker has seen it
}

void pool_core::drop_while_stopping(pool_task& task) noexcept {
  drop(task);
  dropped_while_stopping_.store(true, std::memory_order_relaxed);
}

std::size_t pool_core::purge() {
  // Not more than there are now: others may go on submitting.
  const std::size_t waiting = metrics().waiting;
  std::size_t dropped = 0;
  for (; dropped < waiting; ++dropped) {
    pool_task* const task = scheduler_->take_least();
    if (task == nullptr) break;
    drop(*task);
  }
  return dropped;
}

// Its timer was counted as an operation, so it is not counted itself.
void pool_core::run_due(pool_task& task) noexcept {
  if (life_.is_dropping()) {
    drop_delayed(task);
    dropped_while_stopping_.store(true, std::memory_order_relaxed);
    return;
  }
  slots_.release(1);
  guard([&] { task.execute(); });
}

void pool_core::drop_delayed(pool_task& task) noexcept {
  task.drop();
  slots_.release(1);
  delayed_dropped_.fetch_add(1, std::memory_order_relaxed);
}

thread_pool_metrics pool_core::metrics() const {
  // relaxed: each figure stands for itself.
  const std::uint64_t delayed_dropped = delayed_dropped_.load(std::memory_order_relaxed);
  thread_pool_metrics sum{
      .submitted = scheduler_->enqueued() + delayed_dropped,
      .dropped = quiescence_.dropped() + delayed_dropped,
      .refused = admission_.refused(),
      .run_by_submitter = admission_.run_by_submitter(),
      .exceptions = exceptions_.load(std::memory_order_relaxed),
      .wakeups = scheduler_->wakeups(),
      .delayed = delayed_.size(),
      .workers = workers_.target(),
  };
  sum.started = sum.finished = quiescence_.run_outside();
  for (std::size_t index = 0; index < workers_.size(); ++index) {
    const pool_worker& worker = workers_[index];
    sum.finished += worker.finished.get();
    sum.started += worker.started.get();
    sum.steals += worker.steals.get();
    sum.parks += worker.parks.get();
    sum.submitted += worker.submitted.get();
    if (worker.queue_wait) sum.queue_wait.merge(*worker.queue_wait);
    if (worker.run_time) sum.run_time.merge(*worker.run_time);
  }
  const std::uint64_t gone = sum.started + sum.dropped;
  sum.waiting = sum.submitted > gone ? static_cast<std::size_t>(sum.submitted - gone) : 0;
  return sum;
}

}  // namespace gyre::detail
