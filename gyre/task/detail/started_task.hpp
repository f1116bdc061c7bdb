// SPDX-License-Identifier: Apache-2.0
// started_task: a coroutine that is started and owned by an object that is not a coroutine, for
// example one with callbacks.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <exception>
#include <utility>

namespace gyre::detail {

/// The base of an `Owner`, and the context of the owner's coroutine. When the coroutine has ended,
/// it calls the owner's `void on_work_ended() noexcept`, which may destroy the owner.
///
/// Thread-safety: used only on the thread of the coroutine's executor.
/// Lifetime: the destructor destroys a coroutine that has not ended; the coroutine must allow that
/// (see task).
template <class Owner, class T = void>
class started_task : protected task_context {
 public:
  started_task& operator=(started_task&&) = delete;

 protected:
  /// Runs the coroutine until its first wait. Called once.
  void start() { task_access::state(work_).start(*this); }
  /// Destroys the coroutine, if it waits, or its result.
  void discard() noexcept { work_ = {}; }
  /// Returns the coroutine's exception, or null. Called once, when the coroutine has ended.
  std::exception_ptr take_error() noexcept { return task_access::state(work_).take_error(); }
  T take_result() { return task_access::state(work_).take_success(); }

 private:
  friend Owner;
  started_task(executor& target, task<T>&& work) noexcept : work_(std::move(work)) {
    where = &target;
    finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
      static_cast<Owner&>(static_cast<started_task&>(self)).on_work_ended();
      return std::noop_coroutine();
    };
  }
  ~started_task() = default;

  task<T> work_;
};

}  // namespace gyre::detail
