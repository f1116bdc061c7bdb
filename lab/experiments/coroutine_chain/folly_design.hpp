// SPDX-License-Identifier: Apache-2.0
// folly's design, written afresh: a lazy coroutine that runs on an executor and inherits it, a
// cancellation token, and a place in the stack of asynchronous calls, all kept in its promise. A
// task enters through the executor's queue. Frames come from an allocation behind a call.
#pragma once

#include <lab/experiments/coroutine_chain/design_parts.hpp>

#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <new>
#include <stop_token>
#include <utility>
#include <vector>

namespace lab::coroutine_chain {

struct folly_design {
  /// The executor of a thread that waits: a queue of callables that the thread itself runs.
  class executor {
   public:
    void add(std::function<void()> callable) {
      {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(callable));
      }
      added_.notify_one();
    }

    /// Runs callables until `ended`, which one of them sets.
    void drive(const bool& ended) {
      while (!ended) next()();
    }

   private:
    std::function<void()> next() {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [this] { return !queue_.empty(); });
      auto callable = std::move(queue_.front());
      queue_.pop_front();
      return callable;
    }

    std::mutex mutex_;
    std::condition_variable added_;
    std::deque<std::function<void()>> queue_;  // guarded by mutex_
  };

  /// An entry of the stack of asynchronous calls: debuggers find the callers of a coroutine there.
  struct stack_frame {
    stack_frame* parent = nullptr;
    void* return_address = nullptr;

    static inline thread_local std::atomic<stack_frame*> top = nullptr;

    void push(stack_frame* caller, void* called_from) {
      parent = caller;
      return_address = called_from;
      // release: a signal handler of this thread, or a debugger, finds the entry complete.
      top.store(this, std::memory_order_release);
    }
    void pop() const { top.store(parent, std::memory_order_release); }
  };

  /// Inherited by a task from the one that awaits it.
  struct surroundings {
    executor* runs_on = nullptr;
    std::stop_token cancellation;
  };

  template <class T>
  class [[nodiscard]] task {
    class awaiter;

   public:
    class promise_type : public outcome<T> {
     public:
      [[gnu::noinline]] static void* operator new(std::size_t bytes) {
        return ::operator new(bytes);
      }
      [[gnu::noinline]] static void operator delete(void* frame, std::size_t bytes) {
        ::operator delete(frame, bytes);
      }

      task get_return_object() noexcept { return task(handle::from_promise(*this)); }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept { return at_end(); }

      template <class U>
      auto await_transform(task<U>&& awaited) {
        return std::move(awaited).await_in(inherited_, &entry_);
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
          ended.promise().entry_.pop();
          return ended.promise().continuation_;
        }
        void await_resume() const noexcept {}
      };

      std::coroutine_handle<> continuation_;
      stack_frame entry_;
      surroundings inherited_;
    };

    awaiter await_in(const surroundings& inherited, stack_frame* caller) && {
      frame_.promise().inherited_ = inherited;
      return awaiter(std::move(frame_), caller);
    }

   private:
    using handle = std::coroutine_handle<promise_type>;

    class awaiter {
     public:
      awaiter(owned_frame<promise_type> awaited, stack_frame* caller)
          : awaited_(std::move(awaited)), caller_(caller) {}

      bool await_ready() const noexcept { return false; }
      // Not inlined: the return address is the caller's place.
      [[gnu::noinline]] std::coroutine_handle<> await_suspend(
          std::coroutine_handle<> caller) noexcept {
        awaited_.promise().continuation_ = caller;
        awaited_.promise().entry_.push(caller_, __builtin_return_address(0));
        return awaited_.handle();
      }
      T await_resume() {
        T value = awaited_.promise().take();
        awaited_.destroy();
        return value;
      }

     private:
      owned_frame<promise_type> awaited_;
      stack_frame* caller_;
    };

    explicit task(handle frame) : frame_(frame) {}

    owned_frame<promise_type> frame_;
  };

  template <class T>
  T wait(task<T> awaited) {
    outcome<T> result;
    bool ended = false;
    executor here;
    here.add([&] {
      run(std::move(awaited).await_in({&here, {}}, nullptr), result, [&] { ended = true; });
    });
    here.drive(ended);
    return result.take();
  }

  /// A failed task cancels the others, so all have the token of one source.
  template <class T>
  static auto when_all(std::vector<task<T>> tasks) {
    const auto start = [source = std::stop_source()](task<T> each, outcome<T>& result,
                                                     countdown& left) {
      run(std::move(each).await_in({nullptr, source.get_token()}, nullptr), result,
          [&left] { left.arrive_and_resume(); });
    };
    return all_of<task<T>, T, decltype(start)>(std::move(tasks), start);
  }
};

}  // namespace lab::coroutine_chain
