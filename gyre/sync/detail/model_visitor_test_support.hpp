// SPDX-License-Identifier: Apache-2.0
// A waiting coroutine, reduced to its interface to a primitive, for model tests: its executor wakes
// the model thread that represents it.
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/stop_token.hpp>
#include <tests/model/model.hpp>

#include <coroutine>
#include <expected>
#include <memory>
#include <system_error>
#include <utility>

namespace gyre::test {

/// Wakes the model thread instead of running the posted operation.
struct bell final : executor {
  void post(operation&) noexcept override { rung.wake(); }
  bool running_here() const noexcept override { return true; }
  model::event rung;
};

/// The result of `co_await as_expected(operation)`, with a cancellation as an error.
template <class Operation>
auto result_of(Operation& operation) -> decltype(operation.result()) {
  try {
    return operation.result();
  } catch (const operation_cancelled&) {
    return std::unexpected(std::make_error_code(std::errc::operation_canceled));
  }
}

/// Awaits one `Operation`. Must be on the heap, where every access after its end is found.
template <class Operation>
class visitor {
 public:
  visitor(Operation&& awaited, inplace_stop_token stop) : operation_(std::move(awaited)) {
    context_.where = &bell_;
    context_.stop = stop;
    promise_.context = &context_;
  }

  /// True if the operation has to wait.
  bool begin() {
    return !operation_.await_ready() &&
           operation_.await_suspend(std::coroutine_handle<promise>::from_promise(promise_));
  }
  /// Waits to be resumed, after begin() has returned true.
  void sleep() { bell_.rung.wait(); }
  auto end() { return result_of(operation_); }

 private:
  struct promise : detail::promise_base {};

  bell bell_;
  task_context context_;
  promise promise_{};
  Operation operation_;
};

template <class Operation>
auto make_visitor(Operation operation, inplace_stop_token stop = {}) {
  return std::make_unique<visitor<Operation>>(std::move(operation), stop);
}

/// Awaits `operation`; see result_of().
template <class Operation>
auto await(Operation operation, inplace_stop_token stop = {}) {
  auto awaits = make_visitor(std::move(operation), stop);
  if (awaits->begin()) awaits->sleep();
  return awaits->end();
}

}  // namespace gyre::test
