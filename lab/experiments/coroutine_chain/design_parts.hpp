// SPDX-License-Identifier: Apache-2.0
// The parts that the coroutine designs share: the result in a promise, the awaiting of several
// tasks, a coroutine that starts one of them.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
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

/// Awaits one of several tasks.
template <class Task, class T>
detached run_one(Task task, outcome<T>& result, countdown& left) {
  try {
    result.return_value(co_await std::move(task));
  } catch (...) {
    result.unhandled_exception();
  }
  left.arrive_and_resume();
}

}  // namespace lab::coroutine_chain
