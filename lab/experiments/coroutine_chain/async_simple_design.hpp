// SPDX-License-Identifier: Apache-2.0
// async_simple's design, written afresh: a lazy coroutine by symmetric transfer whose promise also
// has an executor, inherited from the coroutine that awaits it. A frame is freed as soon as its
// result is taken.
#pragma once

#include <lab/experiments/coroutine_chain/design_parts.hpp>

#include <coroutine>
#include <functional>
#include <utility>
#include <vector>

namespace lab::coroutine_chain {

struct async_simple_design {
  /// The interface of an executor. The experiments' figures are without one.
  class executor {
   public:
    virtual ~executor() = default;
    virtual bool schedule(std::function<void()> callable) = 0;
  };

  template <class T>
  class [[nodiscard]] task {
    class awaiter;

   public:
    class promise_type : public outcome<T> {
     public:
      task get_return_object() noexcept { return task(handle::from_promise(*this)); }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept { return at_end(); }

      template <class U>
      auto await_transform(task<U>&& awaited) {
        return std::move(awaited).await_with(executor_);
      }
      template <class Awaitable>
      auto await_transform(Awaitable& awaited) {
        return awaited.operator co_await();
      }

     private:
      friend task;
      friend awaiter;

      struct at_end {
        bool await_ready() const noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
          return ended.promise().continuation_;
        }
        void await_resume() const noexcept {}
      };

      std::coroutine_handle<> continuation_;
      executor* executor_ = nullptr;
    };

    awaiter await_with(executor* inherited) && {
      frame_.promise().executor_ = inherited;
      return awaiter(std::move(frame_));
    }
    awaiter operator co_await() && { return awaiter(std::move(frame_)); }

   private:
    using handle = std::coroutine_handle<promise_type>;

    class awaiter {
     public:
      explicit awaiter(owned_frame<promise_type> awaited) : awaited_(std::move(awaited)) {}

      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        awaited_.promise().continuation_ = caller;
        return awaited_.handle();
      }
      T await_resume() {
        T value = awaited_.promise().take();
        awaited_.destroy();
        return value;
      }

     private:
      owned_frame<promise_type> awaited_;
    };

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
