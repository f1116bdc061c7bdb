// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/worker_loop.hpp>

#include <gyre/pool/detail/future_state.hpp>
#include <gyre/pool/detail/shared_queue_scheduler.hpp>
#include <gyre/pool/detail/stealing_scheduler.hpp>
#include <gyre/task/detail/nested_run.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorder.hpp>

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gyre::detail {
namespace {

// Returns the stack address below which a worker does not help. The last quarter of the stack, at
// most 256 KiB, is reserved for the other calls of a task.
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

}  // namespace

/// The scope in which a worker runs an item on the stack above the item that waits.
class worker_loop::nested_items {
 public:
  explicit nested_items(pool_worker& worker) noexcept
      : worker_(worker), outer_(std::exchange(worker.innermost_run, &run_)) {}
  nested_items& operator=(nested_items&&) = delete;
  ~nested_items() { worker_.innermost_run = outer_; }

 private:
  pool_worker& worker_;
  const void* const outer_;
  nested_run run_;
};

void worker_loop::run() noexcept {
  // Copies the index, because a worker that retires may have a successor before its thread has
  // ended.
  const std::size_t number = self_.index;
  const auto call = [&](auto& hook) {
    if (hook) pool_.guard.call([&] { hook(number); });
  };
  {
    this_worker = &self_;
    self_.innermost_run = current_run();
    self_.helping_stack_end = end_of_helping();
    self_.record.begin();
    const helping_scope helping(*this);
    call(pool_.options.on_start);
    switch (pool_.options.scheduler) {
      case scheduler::stealing: run_items(static_cast<stealing_scheduler&>(pool_.queues)); break;
      case scheduler::blocking: run_items(static_cast<blocking_scheduler&>(pool_.queues)); break;
      case scheduler::spinning: run_items(static_cast<spinning_scheduler&>(pool_.queues)); break;
    }
    this_worker = nullptr;
  }
  call(pool_.options.on_stop);
}

template <class Scheduler>
void worker_loop::run_items(Scheduler& scheduler) noexcept {
  scheduler.begin_work(self_);
  for (;;) {
    if (pool_.life_cycle.concerns_workers()) [[unlikely]] {
      if (!handle_state()) return;
    }
    if (const work_item item = scheduler.next(self_)) {
      if (self_.parker.is_searching()) [[unlikely]]
        scheduler.stop_searching(self_);
      if (pool_.life_cycle.is_paused()) [[unlikely]] {
        // The pool was paused since the first check, and a paused pool starts no tasks.
        scheduler.put_back(self_, item);
      } else {
        pool_.runner.run(self_, item);
      }
    } else {
      release_slots_and_notify();
      const tick_count begin = trace::detail::begin_now();
      scheduler.wait_for_work(self_);
      trace::detail::record_since(begin, trace::detail::event_kind::pool_sleep, 0);
    }
  }
}

// Acts on the state of the pool between two items. Returns false if the worker must end.
bool worker_loop::handle_state() noexcept {
  for (;;) {
    const std::uint32_t snapshot = pool_.life_cycle.snapshot();
    if (pool_.life_cycle.has_ended()) {
      release_slots_and_notify();
      pool_.queues.release_queue(self_);
      pool_.runner.run_leftovers(pool_.queues);
      return false;
    }
    if (pool_.workers.is_surplus(self_) && retire()) return false;
    if (!pool_.life_cycle.is_paused()) return true;
    release_slots_and_notify();
    pool_.life_cycle.wait_for_change(snapshot);
  }
}

bool worker_loop::retire() noexcept {
  release_slots_and_notify();
  pool_.queues.release_queue(self_);
  if (!pool_.workers.retire(self_)) return false;
  pool_.queues.wake_all();  // the items of its deque are now available to others
  return true;
}

// Called by a worker without work: releases the slots of the tasks that it has started, and
// notifies threads that wait for the end of all tasks.
void worker_loop::release_slots_and_notify() noexcept {
  if (self_.free_slots > 0) pool_.slots.release(std::exchange(self_.free_slots, 0));
  pool_.quiescence.notify();
}

bool worker_loop::help_once() noexcept {
  // The item runs on the stack above the task that waits, so enough stack must be left.
  self_.is_out_of_stack =
      reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < self_.helping_stack_end;
  if (self_.is_out_of_stack || pool_.life_cycle.is_paused()) return false;
  const nested_items own_items(self_);
  const work_item item = pool_.queues.next(self_);
  if (item && !pool_.life_cycle.is_paused()) {
    pool_.runner.run(self_, item);
    return true;
  }
  if (item) pool_.queues.put_back(self_, item);
  release_slots_and_notify();
  return false;
}

bool worker_loop::begin_sleep(const future_state_base& task) noexcept {
  return !self_.is_out_of_stack || task.pool() != self_.pool ||
         pool_.workers.begin_sleep(self_, task);
}

void worker_loop::on_wake_up() noexcept {
  if (self_.is_out_of_stack) pool_.workers.on_wake_up(self_);
}

}  // namespace gyre::detail
