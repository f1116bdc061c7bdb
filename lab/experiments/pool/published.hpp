// SPDX-License-Identifier: Apache-2.0
// The pools of the published report, written anew from its description: an unbounded queue, a
// std::packaged_task and a future for every submission, workers that take one task at a time.
#pragma once

#include <cstdint>
#include <future>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace lab::pool {

/// A callable of any type that can be moved but not copied, in a block of its own.
class wrapped_task {
 public:
  wrapped_task() = default;
  template <class F>
  explicit wrapped_task(F work) : held_(new held<F>(std::move(work))) {}
  wrapped_task(wrapped_task&& from) noexcept : held_(std::exchange(from.held_, nullptr)) {}
  // As published: the previous callable is leaked. Workers assign only to empty objects.
  wrapped_task& operator=(wrapped_task&& from) noexcept {
    held_ = std::exchange(from.held_, nullptr);
    return *this;
  }
  ~wrapped_task() { delete held_; }

  void operator()() { held_->run(); }

 private:
  struct any {
    virtual ~any() = default;
    virtual void run() = 0;
  };
  template <class F>
  struct held final : any {
    explicit held(F from) : work(std::move(from)) {}
    void run() override { work(); }
    F work;
  };

  any* held_ = nullptr;
};

/// Queue has push(wrapped_task), take(wrapped_task&), which waits and is false at the end, and
/// close(), after which the end comes when the queue is empty.
template <class Queue>
class published_pool {
 public:
  explicit published_pool(std::uint32_t workers) {
    for (std::uint32_t i = 0; i < workers; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }
  ~published_pool() { queue_.close(); }

  template <class F>
  std::future<std::invoke_result_t<F&>> submit(F callable) {
    std::packaged_task<std::invoke_result_t<F&>()> task(std::move(callable));
    auto result = task.get_future();
    queue_.push(wrapped_task(std::move(task)));
    return result;
  }

  template <class F>
  bool post(F callable) {
    static_cast<void>(submit(std::move(callable)));
    return true;
  }

 private:
  void work() {
    for (;;) {
      wrapped_task task;
      if (!queue_.take(task)) return;
      task();
    }
  }

  Queue queue_;
  std::vector<std::jthread> workers_;
};

}  // namespace lab::pool
