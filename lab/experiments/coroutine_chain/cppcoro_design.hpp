// SPDX-License-Identifier: Apache-2.0
// cppcoro's design, written afresh: a lazy coroutine that enters and leaves by symmetric transfer,
// with nothing in its promise but a continuation and a result. The task owns the frame.
#pragma once

#include <lab/experiments/coroutine_chain/design_parts.hpp>

#include <coroutine>
#include <utility>
#include <vector>

namespace lab::coroutine_chain {

struct cppcoro_design {
  template <class T>
  class [[nodiscard]] task {
   public:
    class promise_type : public outcome<T> {
     public:
      task get_return_object() noexcept { return task(handle::from_promise(*this)); }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept { return at_end(); }

     private:
      friend task;

      struct at_end {
        bool await_ready() const noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          return ended.promise().continuation_;
        }
        void await_resume() const noexcept {}
      };

      std::coroutine_handle<> continuation_;
    };

    auto operator co_await() && noexcept {
      struct awaiter {
        handle awaited;

        bool await_ready() const noexcept { return !awaited || awaited.done(); }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
          awaited.promise().continuation_ = caller;
          return awaited;
        }
        T await_resume() { return awaited.promise().take(); }
      };
      return awaiter{frame_.handle()};
    }

   private:
    using handle = std::coroutine_handle<promise_type>;

    explicit task(handle frame) : frame_(frame) {}

    owned_frame<promise_type> frame_;
  };

  template <class T>
  T wait(task<T> awaited) {
    return wait_for(std::move(awaited));
  }
  template <class T>
  static auto when_all(std::vector<task<T>> tasks) {
    return all_at_once(std::move(tasks));
  }
};

}  // namespace lab::coroutine_chain
