// SPDX-License-Identifier: Apache-2.0
// Guide, part 7: a channel between producers on one loop and a worker on another.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/channel.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <iostream>
#include <optional>

gyre::task<> produce(gyre::channel<int>& to, int first, int last) {
  for (int i = first; i <= last; ++i) co_await to.send(i);
}

gyre::task<> produce_all(gyre::channel<int>& to) {
  co_await gyre::when_all(produce(to, 1, 50), produce(to, 51, 100));
  to.close();
}

gyre::task<int> add_up(gyre::channel<int>& from) {
  int sum = 0;
  while (std::optional<int> next = co_await from.receive()) sum += *next;
  co_return sum;
}

gyre::task<> produce_and_add_up(gyre::executor& worker) {
  gyre::channel<int> numbers(8);
  auto [nothing, sum] =
      co_await gyre::when_all(produce_all(numbers), gyre::on(worker, add_up(numbers)));
  std::cout << sum << '\n';
}

int main() {
  gyre::loop_thread worker({.name = "worker"});
  gyre::loop loop;
  gyre::sync_wait(loop, produce_and_add_up(worker.loop()));
}
