// SPDX-License-Identifier: Apache-2.0
// Coroutines for the tests of this room: one that can be dropped, and one without an executor.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/task.hpp>
#include <tests/support/sanitizers.hpp>

#include <coroutine>
#include <exception>
#include <utility>

namespace gyre::test {

/// Starts a task on `here`, and lets it be destroyed while it waits.
class started : task_context {
 public:
  started(executor& here, task<> work, inplace_stop_token stop_when = {}) : work_(std::move(work)) {
    where = &here;
    stop = stop_when;
    finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
      static_cast<started&>(self).done_ = true;
      return std::noop_coroutine();
    };
    detail::task_access::state(work_).start(*this);
  }
  started(const started&) = delete;
  started& operator=(const started&) = delete;
  ~started() {
    if (!done_) drop();
  }

  bool done() const noexcept { return done_; }
  /// Rethrows the task's exception.
  void get() { detail::task_access::state(work_).take_result(); }
  void drop() { work_ = task<>(); }

 private:
  task<> work_;
  bool done_ = false;
};

/// A coroutine of another library: runs at once, without a context.
struct foreign {
  struct promise_type {
    foreign get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

}  // namespace gyre::test
