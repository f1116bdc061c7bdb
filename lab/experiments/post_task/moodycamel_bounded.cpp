// SPDX-License-Identifier: Apache-2.0
// gyre's loop with moodycamel::ConcurrentQueue as its inbox, with the back pressure of gyre's own
// inboxes, blocks of 256 tasks, and tasks that run where they were dequeued. Each thread that posts
// has a producer token, as its documentation advises.
#include <gyre/base/atomic.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/inbox/detail/throttle.hpp>
#include <gyre/exec/inbox/inbox.hpp>
#include <lab/experiments/post_task/gyre_loop.hpp>

#include <concurrentqueue/concurrentqueue.h>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace {

/// Order: per producer.
class moodycamel_bounded {
 public:
  static constexpr gyre::inbox::ordering order = gyre::inbox::ordering::per_producer;

  moodycamel_bounded() = default;
  moodycamel_bounded& operator=(moodycamel_bounded&&) = delete;
  ~moodycamel_bounded() {
    // One by one, while the queue is whole: destructors of tasks may post.
    while (next_ < taken_ || refill()) const task dropped = std::move(batch_[next_++]);
  }

  template <class F>
  void push(F&& callable) {
    if (!queue_.enqueue(token(), task(std::forward<F>(callable)))) throw std::bad_alloc();
    // The queue's size is a sum over all producers, so it is not asked for each task.
    thread_local unsigned pushed = 0;
    if (++pushed % 1024 == 0) throttle_.slow_down([this] { return pending(); });
  }

  void run(gyre::inbox::batch& tasks) {
    throttle_.register_consumer();
    while (tasks.more() && (next_ < taken_ || refill())) {
      task& each = batch_[next_++];
      // relaxed: a hint of the number that waits.
      in_batch_.store(taken_ - next_, std::memory_order_relaxed);
      tasks.count(1);
      each();
      each = nullptr;
    }
    throttle_.wake_producers([this] { return pending(); });
  }

  bool ready() noexcept {
    if (next_ < taken_ || queue_.size_approx() != 0) return true;
    throttle_.wake_producers([this] { return pending(); });
    return false;
  }

  std::size_t pending() const noexcept {
    return queue_.size_approx() + in_batch_.load(std::memory_order_relaxed);  // relaxed: a hint
  }

 private:
  using task = gyre::move_only_function<void()>;

  struct traits : moodycamel::ConcurrentQueueDefaultTraits {
    static constexpr std::size_t BLOCK_SIZE = 256;
  };

  static constexpr std::size_t batch_size = 256;
  static constexpr std::size_t high_water = std::size_t{1} << 14;  // as inbox::fifo

  // There is one inbox in the process, which outlives the threads that post.
  moodycamel::ProducerToken& token() {
    thread_local moodycamel::ProducerToken own_token(queue_);
    return own_token;
  }

  bool refill() {
    next_ = 0;
    taken_ = queue_.try_dequeue_bulk(token_, batch_.begin(), batch_size);
    return taken_ != 0;
  }

  gyre::inbox::detail::throttle throttle_{high_water};
  moodycamel::ConcurrentQueue<task, traits> queue_;
  moodycamel::ConsumerToken token_{queue_};
  std::array<task, batch_size> batch_;
  std::size_t next_ = 0;
  std::size_t taken_ = 0;
  gyre::detail::atomic<std::size_t> in_batch_{0};
};

static_assert(gyre::inbox::policy<moodycamel_bounded>);

}  // namespace

int main(int argc, char** argv) {
  using namespace lab::post_task;
  return contender_main<gyre_loop<moodycamel_bounded>>(argc, argv);
}
