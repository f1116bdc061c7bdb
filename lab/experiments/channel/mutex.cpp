// SPDX-License-Identifier: Apache-2.0
// Threads without coroutines: a ring under a std::mutex, and two condition variables.
#include <lab/experiments/channel/workload.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace {

using lab::channel::consumer;
using lab::channel::message;
using lab::channel::producer;

class mutex_queue {
 public:
  explicit mutex_queue(std::uint32_t capacity) : ring_(capacity) {}

  void produce(producer& from) {
    for (message each; from.next(each);) push(each);
  }
  void consume(consumer& to) {
    while (to.take(pop())) {
    }
  }

 private:
  void push(message value) {
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] { return size_ < ring_.size(); });
    ring_[(first_ + size_++) % ring_.size()] = value;
    lock.unlock();
    has_value_.notify_one();
  }

  message pop() {
    std::unique_lock lock(mutex_);
    has_value_.wait(lock, [this] { return size_ > 0; });
    const message value = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --size_;
    lock.unlock();
    has_room_.notify_one();
    return value;
  }

  std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable has_value_;
  std::vector<message> ring_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace

int main(int argc, char** argv) { return lab::channel::contender_main<mutex_queue>(argc, argv); }
