// SPDX-License-Identifier: Apache-2.0
// pool_task, work_item: the elements of a pool's queues: tasks, and operations, which must not be
// dropped.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/pool/pool_options.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace gyre::detail {

/// A callable in a block of the slab. Running or dropping it frees the block.
class pool_task : public operation {
 public:
  /// Destroys the callable without running it.
  void drop() noexcept { drop_(*this); }

  bool has_slot = false;  ///< whether it holds a slot of the pool's capacity
  task_priority priority = task_priority::normal;
  steady_time queue_time{};  ///< when a task of low priority entered its lane; otherwise unused

 protected:
  pool_task(function run, void (*destroy)(pool_task&) noexcept) noexcept
      : operation(run), drop_(destroy) {}
  ~pool_task() = default;

 private:
  void (*drop_)(pool_task&) noexcept;
};

template <class F>
class callable_task final : public pool_task, public short_lived_object {
 public:
  template <class G>
  explicit callable_task(G&& callable)
      : pool_task(&run, &destroy), callable_(std::forward<G>(callable)) {}

 private:
  static void run(operation& self) {
    struct destroyed_at_end {
      callable_task& task;
      ~destroyed_at_end() { destroy(task); }
    } const guard{static_cast<callable_task&>(self)};
    static_cast<void>(guard.task.callable_());
  }
  static void destroy(pool_task& self) noexcept { delete &static_cast<callable_task&>(self); }

  [[no_unique_address]] F callable_;
};

/// Makes a task. Throws std::bad_alloc, and the exceptions of copying or moving the callable.
template <class F>
pool_task& make_pool_task(F&& callable) {
  return *new callable_task<std::decay_t<F>>(std::forward<F>(callable));
}

/// A deleter that drops a task.
struct task_dropper {
  template <class Task>
  void operator()(Task* task) const noexcept {
    task->drop();
  }
};

/// A task or an operation, in one word.
class work_item {
 public:
  constexpr work_item() noexcept = default;
  explicit work_item(operation& op) noexcept : word_(reinterpret_cast<std::uintptr_t>(&op)) {}
  explicit work_item(pool_task& task) noexcept
      : word_(reinterpret_cast<std::uintptr_t>(static_cast<operation*>(&task)) | is_task_bit) {}

  explicit operator bool() const noexcept { return word_ != 0; }
  friend bool operator==(work_item, work_item) noexcept = default;

  bool is_task() const noexcept { return (word_ & is_task_bit) != 0; }
  operation& op() const noexcept { return *reinterpret_cast<operation*>(word_ & ~is_task_bit); }
  pool_task& task() const noexcept { return static_cast<pool_task&>(op()); }

 private:
  static constexpr std::uintptr_t is_task_bit = 1;

  std::uintptr_t word_ = 0;
};

}  // namespace gyre::detail
