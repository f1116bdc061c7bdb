// SPDX-License-Identifier: Apache-2.0
// resumption: resumes a suspended coroutine through the queue of an executor.
#pragma once

#include <gyre/base/operation.hpp>
#include <gyre/task/detail/transfer.hpp>
#include <gyre/task/executor.hpp>

#include <coroutine>

namespace gyre::detail {

/// An operation that resumes the coroutine `waiting`. Base of awaiters. A copy or a move makes a
/// new operation, because an awaiter may be moved until it is awaited.
struct resumption : operation {
  resumption() noexcept
      : operation([](operation& self) { resume(static_cast<resumption&>(self).waiting); }) {}
  resumption(const resumption&) noexcept : resumption() {}
  resumption& operator=(const resumption&) = delete;

  std::coroutine_handle<> waiting;
};

/// Posts the resumption of `coroutine` to `target`, as an operation allocated from the slab.
/// Returns false without memory.
bool post_resumption(std::coroutine_handle<> coroutine, executor& target) noexcept;

/// Base of awaiters that are never ready, and that resume a coroutine on its executor.
struct suspends_always {
  static constexpr bool executor_affine = true;
  static constexpr bool await_ready() noexcept { return false; }
  static constexpr void await_resume() noexcept {}
};

/// An awaiter that calls `suspend` with the coroutine's handle. `suspend` returns whether the
/// coroutine must wait.
template <class Suspend>
class suspension : public suspends_always {
 public:
  explicit suspension(Suspend suspend) noexcept : suspend_(suspend) {}
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> coroutine) noexcept(
      noexcept(suspend_(coroutine))) {
    return suspend_(coroutine);
  }

 private:
  Suspend suspend_;
};

}  // namespace gyre::detail
