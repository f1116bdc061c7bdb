// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/pool_worker.hpp>

#include <gyre/pool/detail/future_state.hpp>
#include <gyre/pool/detail/pool_core.hpp>
#include <gyre/task/detail/nested_run.hpp>

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace gyre::detail {
namespace {

// The address of the stack below which a worker does not help: a quarter of the stack, 256 KiB at
// most, is for its other calls.
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

constinit thread_local pool_worker* this_worker = nullptr;

/// Marks the items that a worker runs above one that waits.
class pool_worker::nested_items {
 public:
  explicit nested_items(pool_worker& worker) noexcept
      : worker_(worker), outer_(std::exchange(worker.run_here, &run_)) {}
  nested_items& operator=(nested_items&&) = delete;
  ~nested_items() { worker_.run_here = outer_; }

 private:
  pool_worker& worker_;
  const void* const outer_;
  nested_run run_;
};

void pool_worker::run_thread() noexcept {
  // A worker that retires may have a successor before its thread has ended.
  const std::size_t number = index;
  pool_core& pool = core;
  const auto call = [&](auto& hook) {
    if (hook) pool.exceptions().call([&] { hook(number); });
  };
  {
    this_worker = this;
    run_here = current_run();
    stack_reserve = end_of_helping();
    const helping_scope helping(*this);
    call(pool.options().on_start);
    pool.scheduler().run_worker(*this);
    this_worker = nullptr;
  }
  call(pool.options().on_stop);
}

void pool_worker::run(work_item item) noexcept {
  if (item.is_task() && core.life().is_dropping()) [[unlikely]] {
    core.drop_while_stopping(item.task());
    return;
  }
  started.add(1);
  ++depth;
  if (item.is_task()) {
    pool_task& task = item.task();
    core.admission().release_later(task.has_slot, free_slots);
    core.exceptions().call([&] { task.execute(); });
  } else {
    item.op().execute();
  }
  --depth;
  finished.add(1);
}

// push_own(), which has counted the item in `submitted`, calls this when the deque must grow.
bool pool_worker::push_own_slowly(work_item item) noexcept {
  if (!deque.push(item)) {
    submitted.subtract(1);
    return false;
  }
  feeds_itself = true;
  thieves->notify();
  return true;
}

bool pool_worker::handle_state() noexcept {
  const life_cycle& life = core.life();
  for (;;) {
    const std::uint32_t seen = life.snapshot();
    if (life.has_ended()) {
      reconcile();
      core.scheduler().release_queue(*this);
      core.run_leftovers();
      return false;
    }
    if (core.workers().is_surplus(*this) && retire()) return false;
    if (!life.is_paused()) return true;
    reconcile();
    life.wait_for_change(seen);
  }
}

bool pool_worker::retire() noexcept {
  reconcile();
  core.scheduler().release_queue(*this);
  if (!core.workers().retire(*this)) return false;
  core.scheduler().wake_all();  // its deque's items are for the others
  return true;
}

void pool_worker::reconcile() noexcept {
  if (free_slots > 0) core.admission().release(std::exchange(free_slots, 0));
  core.quiescence().notify();
}

bool pool_worker::help_once() noexcept {
  // The task would run above the one that waits, which needs enough of the stack.
  out_of_stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < stack_reserve;
  if (out_of_stack || core.life().is_paused()) return false;
  const nested_items here(*this);
  const work_item item = core.scheduler().next(*this);
  if (item && !core.life().is_paused()) {
    run(item);
    return true;
  }
  if (item) core.scheduler().put_back(*this, item);
  reconcile();
  return false;
}

bool pool_worker::may_sleep(const future_state_base& task) noexcept {
  return !out_of_stack || task.pool() != &core || core.workers().may_sleep(*this, task);
}

void pool_worker::woke_up() noexcept {
  if (out_of_stack) core.workers().woke_up(*this);
}

}  // namespace gyre::detail
