// SPDX-License-Identifier: Apache-2.0
// A minimal pool on moodycamel::BlockingConcurrentQueue in the fastest use that its documentation
// knows: a producer token for each user and workers that take batches. The queue is bounded, as
// gyre's pools are: its memory is allocated at the start, and a user who finds no room yields.
#include <lab/experiments/pool/workload.hpp>

#include <concurrentqueue/blockingconcurrentqueue.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace {

class moodycamel_pool {
 public:
  explicit moodycamel_pool(std::uint32_t workers) {
    for (std::uint32_t i = 0; i < workers; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }

  // An empty task ends a worker, which may have taken a batch of them.
  ~moodycamel_pool() {
    for (std::size_t i = 0; i < workers_.size() * batch; ++i) queue_.enqueue(task());
  }

  template <class F>
  bool post(F&& callable) {
    task made(std::forward<F>(callable));
    while (!queue_.try_enqueue(token(), std::move(made))) std::this_thread::yield();
    return true;
  }

 private:
  using task = std::move_only_function<void()>;

  static constexpr std::size_t batch = 64;
  static constexpr std::size_t capacity = 24'576;  // gyre's default

  // There is one pool in the process.
  moodycamel::ProducerToken& token() {
    thread_local moodycamel::ProducerToken own_token(queue_);
    return own_token;
  }

  void work() {
    moodycamel::ConsumerToken token(queue_);
    std::array<task, batch> taken;
    for (;;) {
      const std::size_t number = queue_.wait_dequeue_bulk(token, taken.begin(), batch);
      for (std::size_t i = 0; i < number; ++i) {
        if (!taken[i]) return;
        taken[i]();
      }
    }
  }

  moodycamel::BlockingConcurrentQueue<task> queue_{capacity};
  std::vector<std::jthread> workers_;
};

}  // namespace

int main(int argc, char** argv) { return lab::pool::contender_main<moodycamel_pool>(argc, argv); }
