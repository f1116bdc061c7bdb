// SPDX-License-Identifier: Apache-2.0
// Guide, part 8: a coroutine that owns an account, with a channel as its mailbox.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/sync/oneshot.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <iostream>
#include <optional>
#include <stdexcept>
#include <utility>

struct deposit {
  int amount;
  gyre::oneshot_sender<int> reply;
};

gyre::task<> keep_account(gyre::channel<deposit>& mailbox) {
  int balance = 0;
  while (std::optional<deposit> next = co_await mailbox.receive()) {
    balance += next->amount;
    next->reply.send(balance);
  }
}

gyre::task<int> pay_in(gyre::channel<deposit>& mailbox, int amount) {
  auto [reply, answer] = gyre::make_oneshot<int>();
  co_await mailbox.emplace(amount, std::move(reply));
  const std::optional<int> balance = co_await answer.receive();
  if (!balance) throw std::runtime_error("the deposit was dropped");
  co_return *balance;
}

gyre::task<> pay_in_twice(gyre::channel<deposit>& mailbox) {
  for (const int amount : {40, 2}) {
    const int balance = co_await pay_in(mailbox, amount);
    std::cout << balance << '\n';
  }
  mailbox.close();
}

gyre::task<> bank() {
  gyre::channel<deposit> mailbox(8);
  co_await gyre::when_all(keep_account(mailbox), pay_in_twice(mailbox));
}

int main() {
  gyre::loop loop;
  gyre::sync_wait(loop, bank());
}
