// SPDX-License-Identifier: Apache-2.0
// The parts that the coroutine designs share: the result in a promise, the owner of a frame, the
// waiting for one task or several.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

namespace lab::coroutine_chain {

/// The result of a coroutine: a value or an exception. The base of a promise.
template <class T>
class outcome {
 public:
  outcome() noexcept {}
  outcome(const outcome&) = delete;
  outcome& operator=(const outcome&) = delete;
  ~outcome() {
    if (holds_ == kind::value) value_.~T();
    if (holds_ == kind::exception) exception_.~exception_ptr();
  }

  // Called once, as a coroutine ends once.
  template <class U>
  void return_value(U&& value) {
    std::construct_at(&value_, std::forward<U>(value));
    holds_ = kind::value;
  }
  void unhandled_exception() noexcept {
    std::construct_at(&exception_, std::current_exception());
    holds_ = kind::exception;
  }

  T take() {
    if (holds_ == kind::exception) [[unlikely]]
      std::rethrow_exception(exception_);
    return std::move(value_);
  }

 private:
  enum class kind : unsigned char { nothing, value, exception };

  union {
    T value_;
    std::exception_ptr exception_;
  };
  kind holds_ = kind::nothing;
};

/// The owner of a coroutine's frame.
template <class Promise>
class owned_frame {
 public:
  explicit owned_frame(std::coroutine_handle<Promise> frame) noexcept : frame_(frame) {}
  owned_frame(owned_frame&& from) noexcept : frame_(std::exchange(from.frame_, nullptr)) {}
  owned_frame& operator=(owned_frame&&) = delete;
  ~owned_frame() {
    if (frame_) frame_.destroy();
  }

  std::coroutine_handle<Promise> handle() const noexcept { return frame_; }
  Promise& promise() const noexcept { return frame_.promise(); }
  void destroy() { std::exchange(frame_, nullptr).destroy(); }

 private:
  std::coroutine_handle<Promise> frame_;
};

/// A coroutine that runs at once and frees its own frame.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
  };
};

/// Counts the tasks that still run, and the collecting coroutine, which starts them.
class countdown {
 public:
  explicit countdown(std::size_t tasks) : left_(tasks + 1) {}

  void await(std::coroutine_handle<> collector) { collector_ = collector; }

  /// Returns whether nothing is left to run.
  bool arrive() {
    // acq_rel: the last one sees the results of all.
    return left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  void arrive_and_resume() {
    if (arrive()) collector_.resume();
  }

 private:
  std::atomic<std::size_t> left_;
  std::coroutine_handle<> collector_;
};

/// Starts tasks with `start(task, place of its result, countdown)` and awaits all of them.
template <class Task, class T, class Start>
class all_of {
 public:
  all_of(std::vector<Task> tasks, Start start)
      : tasks_(std::move(tasks)), results_(tasks_.size()), left_(tasks_.size()), start_(start) {}

  auto operator co_await() & noexcept {
    struct awaiter {
      all_of* all;

      bool await_ready() const noexcept { return all->tasks_.empty(); }
      bool await_suspend(std::coroutine_handle<> collector) { return all->begin(collector); }
      std::vector<T> await_resume() { return all->take(); }
    };
    return awaiter{this};
  }

 private:
  // Returns whether the collector has to wait.
  bool begin(std::coroutine_handle<> collector) {
    left_.await(collector);
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      start_(std::move(tasks_[i]), results_[i], left_);
    }
    return !left_.arrive();
  }

  std::vector<T> take() {
    std::vector<T> values;
    values.reserve(results_.size());
    for (outcome<T>& each : results_) values.push_back(each.take());
    return values;
  }

  std::vector<Task> tasks_;
  std::vector<outcome<T>> results_;
  countdown left_;
  Start start_;
};

/// Awaits a task, keeps its result, then calls `at_end`.
template <class Awaitable, class T, class AtEnd>
detached run(Awaitable task, outcome<T>& result, AtEnd at_end) {
  try {
    result.return_value(co_await std::move(task));
  } catch (...) {
    result.unhandled_exception();
  }
  at_end();
}

/// Waits for a task that may end on any thread.
template <template <class> class Task, class T>
T wait_for(Task<T> awaited) {
  outcome<T> result;
  std::binary_semaphore ended{0};
  run(std::move(awaited), result, [&] { ended.release(); });
  ended.acquire();
  return result.take();
}

/// Awaits all tasks, each of which runs by itself.
template <template <class> class Task, class T>
auto all_at_once(std::vector<Task<T>> tasks) {
  const auto start = [](Task<T> each, outcome<T>& result, countdown& left) {
    run(std::move(each), result, [&left] { left.arrive_and_resume(); });
  };
  return all_of<Task<T>, T, decltype(start)>(std::move(tasks), start);
}

}  // namespace lab::coroutine_chain
