// SPDX-License-Identifier: Apache-2.0
// inbox::moodycamel: an inbox on moodycamel::ConcurrentQueue, for comparison. Needs its header;
// gyre.hpp does not include it.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <concurrentqueue/concurrentqueue.h>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace gyre::inbox {

/// A `moodycamel::ConcurrentQueue`, from which the loop takes tasks in bulk with a consumer token.
///
/// Order: per producer. No block is freed before the inbox is destroyed.
class moodycamel {
 public:
  static constexpr ordering order = ordering::per_producer;

  moodycamel() = default;
  moodycamel& operator=(moodycamel&&) = delete;
  ~moodycamel() {
    // Tasks are destroyed one by one, while the queue still works, because their destructors may
    // post.
    while (next_index_ < batch_size_ || refill())
      const task discarded_task = std::move(batch_[next_index_++]);
  }

  template <class F>
  void push(F&& callable) {
    if (!queue_.enqueue(task(std::forward<F>(callable)))) throw std::bad_alloc();
  }

  void run(batch& tasks) {
    while (tasks.more()) {
      if (next_index_ == batch_size_ && !refill()) return;
      task front = std::move(batch_[next_index_++]);
      in_batch_.store(batch_size_ - next_index_, std::memory_order_relaxed);
      tasks.count(1);
      front();
    }
  }

  bool ready() noexcept { return next_index_ < batch_size_ || queue_.size_approx() != 0; }

  std::size_t pending() const noexcept {
    return queue_.size_approx() + in_batch_.load(std::memory_order_relaxed);
  }

 private:
  using task = move_only_function<void()>;
  static constexpr std::size_t batch_size = 256;

  bool refill() {
    next_index_ = 0;
    batch_size_ = queue_.try_dequeue_bulk(token_, batch_.begin(), batch_size);
    return batch_size_ != 0;
  }

  ::moodycamel::ConcurrentQueue<task> queue_;
  ::moodycamel::ConsumerToken token_{queue_};
  std::array<task, batch_size> batch_;
  std::size_t next_index_ = 0;
  std::size_t batch_size_ = 0;
  gyre::detail::atomic<std::size_t> in_batch_{0};
};

static_assert(policy<moodycamel>);

}  // namespace gyre::inbox
