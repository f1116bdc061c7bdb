// SPDX-License-Identifier: Apache-2.0
// A coroutine that a test can destroy while it waits.
//
//     const auto reads = [&](gyre::executor&) -> gyre::test::droppable { co_await peer.receive(); };
//     gyre::test::droppable waiting = reads(loop);
//     waiting.drop();
#pragma once

#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <gtest/gtest.h>

#include <coroutine>
#include <utility>

namespace gyre::test {

/// Runs at once. Its first parameter is the executor on which it resumes after a wait; its second
/// parameter is its stop token, if it is one.
class [[nodiscard]] droppable {
 public:
  struct promise_type {
    template <class... Others>
    explicit promise_type(executor& where, Others&...) {
      inherited.where = &where;
    }
    template <class... Others>
    promise_type(executor& where, inplace_stop_token stop, Others&...) {
      inherited.where = &where;
      inherited.stop = stop;
    }
    // The constructor for lambda coroutines; not all compilers pass the lambda itself.
    template <class Lambda, class... Others>
    promise_type(Lambda&, executor& where, Others&... others) : promise_type(where, others...) {}

    droppable get_return_object() {
      return droppable(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    static void return_void() {}
    static void unhandled_exception() { ADD_FAILURE() << "an exception left the coroutine"; }
    task_context& context() noexcept { return inherited; }
    task_context inherited;
  };

  droppable(droppable&& other) noexcept : self_(std::exchange(other.self_, {})) {}
  droppable& operator=(droppable&&) = delete;
  ~droppable() { drop(); }

  [[nodiscard]] bool done() const { return self_.done(); }
  void drop() {
    if (self_) std::exchange(self_, {}).destroy();
  }

 private:
  explicit droppable(std::coroutine_handle<promise_type> self) : self_(self) {}
  std::coroutine_handle<promise_type> self_;
};

}  // namespace gyre::test
