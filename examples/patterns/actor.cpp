// SPDX-License-Identifier: Apache-2.0
// An actor: an object whose state only its own task uses, with a mailbox. For
// docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <iostream>
#include <optional>
#include <utility>

namespace {

class counter {
 public:
  explicit counter(gyre::executor& where) : mailbox_(64), tasks_(where) { tasks_.spawn(run()); }

  // Asks the actor to add `amount`, and gives the new total.
  gyre::task<int> add(int amount) {
    auto [reply, total] = gyre::make_oneshot<int>();
    co_await mailbox_.emplace(amount, std::move(reply));  // waits while 64 messages are queued
    const std::optional<int> answer = co_await total.receive();
    co_return answer.value();
  }

  // Answers what was asked, then ends. To be awaited before the destructor.
  gyre::task<> stop() {
    mailbox_.close();
    co_await tasks_.join();
  }

 private:
  struct message {
    int amount;
    gyre::oneshot_sender<int> reply;
  };

  gyre::task<> run() {
    int total = 0;
    while (true) {
      std::optional<message> next = co_await mailbox_.receive();
      if (!next) co_return;
      total += next->amount;
      next->reply.send(total);
    }
  }

  gyre::channel<message> mailbox_;
  gyre::async_scope tasks_;
};

gyre::task<> use(gyre::executor& where) {
  counter visitors(where);
  co_await gyre::when_all(visitors.add(1), visitors.add(2), visitors.add(3));
  const int total = co_await visitors.add(100);
  std::cout << total << '\n';
  co_await visitors.stop();
}

}  // namespace

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, use(loop));
}
