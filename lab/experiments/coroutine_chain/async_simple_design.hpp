// SPDX-License-Identifier: Apache-2.0
// async_simple's design, written afresh: a lazy coroutine by symmetric transfer whose promise also
// has an executor, inherited from the coroutine that awaits it. A frame is freed as soon as its
// result is taken.
#pragma once

#include <lab/experiments/coroutine_chain/design_parts.hpp>

#include <coroutine>
#include <functional>
#include <semaphore>
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

    task(task&& from) noexcept : frame_(std::exchange(from.frame_, nullptr)) {}
    task& operator=(task&&) = delete;
    ~task() {
      if (frame_) frame_.destroy();
    }

    awaiter await_with(executor* inherited) && {
      frame_.promise().executor_ = inherited;
      return awaiter(std::exchange(frame_, nullptr));
    }
    awaiter operator co_await() && { return awaiter(std::exchange(frame_, nullptr)); }

   private:
    using handle = std::coroutine_handle<promise_type>;

    class awaiter {
     public:
      explicit awaiter(handle awaited) : awaited_(awaited) {}
      awaiter(awaiter&& from) noexcept : awaited_(std::exchange(from.awaited_, nullptr)) {}
      awaiter& operator=(awaiter&&) = delete;
      ~awaiter() {
        if (awaited_) awaited_.destroy();
      }

      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
        awaited_.promise().continuation_ = caller;
        return awaited_;
      }
      T await_resume() {
        T value = awaited_.promise().take();
        std::exchange(awaited_, nullptr).destroy();
        return value;
      }

     private:
      handle awaited_;
    };

    explicit task(handle frame) : frame_(frame) {}

    handle frame_;
  };

  template <class T>
  T wait(task<T> awaited) {
    outcome<T> result;
    std::binary_semaphore ended{0};
    run(std::move(awaited), result, ended);
    ended.acquire();
    return result.take();
  }

  template <class T>
  static auto when_all(std::vector<task<T>> tasks) {
    const auto start = [](task<T> each, outcome<T>& result, countdown& left) {
      run_one(std::move(each), result, left);
    };
    return all_of<task<T>, T, decltype(start)>(std::move(tasks), start);
  }

 private:
  template <class T>
  static detached run(task<T> awaited, outcome<T>& result, std::binary_semaphore& ended) {
    try {
      result.return_value(co_await std::move(awaited));
    } catch (...) {
      result.unhandled_exception();
    }
    ended.release();
  }
};

}  // namespace lab::coroutine_chain
