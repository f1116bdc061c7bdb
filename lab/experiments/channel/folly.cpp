// SPDX-License-Identifier: Apache-2.0
// folly: coro::BoundedQueue between tasks, each driven by blockingWait on an EventBase of its
// thread.
#include <lab/experiments/channel/workload.hpp>

#include <folly/coro/BlockingWait.h>
#include <folly/coro/BoundedQueue.h>
#include <folly/coro/Collect.h>
#include <folly/coro/Task.h>
#include <folly/io/async/EventBase.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace {

using lab::channel::consumer;
using lab::channel::message;
using lab::channel::parties;
using lab::channel::producer;

class folly_queue {
 public:
  explicit folly_queue(std::uint32_t capacity) : queue_(capacity) {}

  void produce(producer& from) {
    folly::EventBase loop;
    folly::coro::blockingWait(send(from), &loop);
  }

  void consume(consumer& to) {
    folly::EventBase loop;
    folly::coro::blockingWait(receive(to), &loop);
  }

  void run(parties& all) {
    folly::EventBase loop;
    std::vector<folly::coro::Task<void>> tasks;
    for (producer& each : all.producers) tasks.push_back(send(each));
    for (consumer& each : all.consumers) tasks.push_back(receive(each));
    folly::coro::blockingWait(folly::coro::collectAllRange(std::move(tasks)), &loop);
  }

 private:
  folly::coro::Task<void> send(producer& from) {
    for (message each; from.next(each);) {
      if (!queue_.try_enqueue(each)) co_await queue_.enqueue(each);
    }
  }

  folly::coro::Task<void> receive(consumer& to) {
    message received;
    do {
      if (!queue_.try_dequeue(received)) co_await queue_.dequeue(received);
    } while (to.take(received));
  }

  folly::coro::BoundedQueue<message> queue_;
};

}  // namespace

int main(int argc, char** argv) { return lab::channel::contender_main<folly_queue>(argc, argv); }
