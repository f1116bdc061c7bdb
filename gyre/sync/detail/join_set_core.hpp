// SPDX-License-Identifier: Apache-2.0
// join_set_core, join_set_task: the state that a join_set shares with its tasks, and such a task.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/sync/semaphore.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

namespace gyre::detail {

class join_set_core;

/// A task of a join_set: its context while it runs, then an element of the queue of ended tasks.
/// The task owns itself until it has ended; then the set owns it.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): the destructor is virtual
class join_set_task : public slab_object, public task_context, public operation, scope_entry {
 public:
  join_set_task& operator=(join_set_task&&) = delete;
  virtual ~join_set_task() = default;

  /// Starts the task `spawned` in the scope of its set. Throws std::logic_error if that scope has
  /// ended.
  static void start(std::unique_ptr<join_set_task> new_task);

  virtual std::exception_ptr take_error() noexcept = 0;

 protected:
  join_set_task(join_set_core& set, executor& target, function run,
                const char* description) noexcept;

 private:
  static std::coroutine_handle<> on_end(task_context& context) noexcept;

  join_set_core& set_;
};

/// The state that a join_set shares with its tasks. The last owner, a task or the set, deletes it.
class join_set_core : public slab_object {
 public:
  explicit join_set_core(scope& parent_scope) noexcept
      : scope_(parent_scope), stop_(parent_scope.get_token()) {}

  void acquire() noexcept {
    owners_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the caller keeps this object alive
  }
  void release() noexcept {
    // acq_rel: the release of each owner pairs with the acquire of the last one, which deletes.
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  scope& owner() const noexcept { return scope_; }
  inplace_stop_token get_token() const noexcept { return stop_.get_token(); }
  bool request_stop() noexcept {
    acquire();  // stop callbacks may release all other owners
    const bool is_first = stop_.request_stop();
    release();
    return is_first;
  }
  /// Returns the number of tasks that were started and whose results were not taken.
  std::size_t size() const noexcept {
    // relaxed: the count orders nothing; only the consumer decreases it.
    return size_.load(std::memory_order_relaxed);
  }
  void add_one() noexcept { size_.fetch_add(1, std::memory_order_relaxed); }
  void remove_one() noexcept { size_.fetch_sub(1, std::memory_order_relaxed); }

  /// Queues `task`, which has ended. Returns false if the set is gone: the task then deletes
  /// itself.
  bool push(join_set_task& task) noexcept;
  /// Returns the semaphore that has one permit for each task in the queue; pop() requires a permit.
  semaphore& ended() noexcept { return ended_count_; }
  /// Removes and returns the task that ended first. Called by the holder of a permit of ended().
  std::unique_ptr<join_set_task> pop() noexcept;
  /// Drops the results in the queue. Called by the set's destructor.
  void close() noexcept;

 private:
  ~join_set_core() = default;

  scope& scope_;
  linked_stop_source stop_;
  atomic<unsigned> owners_{1};
  atomic<std::size_t> size_{0};
  semaphore ended_count_{0};
  spin_lock lock_;
  bool is_closed_ = false;            // guarded by lock_
  intrusive_queue<operation> queue_;  // the ended join_set_tasks; guarded by lock_
};

template <class T>
class typed_join_set_task final : public join_set_task {
 public:
  typed_join_set_task(join_set_core& set, executor& target, task<T>&& work,
                      const char* description) noexcept
      : join_set_task(
            set, target,
            [](operation& self) {
              auto& own_task = static_cast<typed_join_set_task&>(self);
              task_access::state(own_task.work_).start(own_task);
            },
            description),
        work_(std::move(work)) {
    // The task is prepared now, so that backtraces show it before it begins.
    if constexpr (records_backtraces) {
      task_access::state(work_).prepare(static_cast<task_context&>(*this));
    }
  }

  std::exception_ptr take_error() noexcept override {
    return task_access::state(work_).take_error();
  }
  T take_result() { return task_access::state(work_).take_result(); }

 private:
  task<T> work_;
};

}  // namespace gyre::detail
