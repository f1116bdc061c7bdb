// SPDX-License-Identifier: Apache-2.0
// gyre: channel between tasks.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <lab/experiments/channel/workload.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace {

using lab::channel::consumer;
using lab::channel::message;
using lab::channel::parties;
using lab::channel::producer;

class gyre_queue {
 public:
  explicit gyre_queue(std::uint32_t capacity) : channel_(capacity) {}

  void produce(producer& from) {
    gyre::loop loop;
    gyre::sync_wait(loop, send(from));
  }

  void consume(consumer& to) {
    gyre::loop loop;
    gyre::sync_wait(loop, receive(to));
  }

  void run(parties& all) {
    gyre::loop loop;
    std::vector<gyre::task<>> tasks;
    for (producer& each : all.producers) tasks.push_back(send(each));
    for (consumer& each : all.consumers) tasks.push_back(receive(each));
    gyre::sync_wait(loop, gyre::when_all(std::move(tasks)));
  }

 private:
  gyre::task<> send(producer& from) {
    for (message each; from.next(each);) co_await channel_.send(each);
  }

  gyre::task<> receive(consumer& to) {
    std::optional<message> received;
    do {
      received = co_await channel_.receive();
    } while (to.take(*received));
  }

  gyre::channel<message> channel_;
};

}  // namespace

int main(int argc, char** argv) { return lab::channel::contender_main<gyre_queue>(argc, argv); }
