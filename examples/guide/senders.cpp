// SPDX-License-Identifier: Apache-2.0
// Guide, part 8: senders of std::execution in coroutines, and a coroutine as a sender.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/adapter/stdexec.hpp>
#include <gyre/task/task.hpp>

#include <iostream>
#include <utility>

namespace ex = stdexec;

gyre::task<int> add_on(gyre::executor& pool, int one, int other) {
  auto adding = ex::then(ex::schedule(gyre::as_scheduler(pool)), [=] { return one + other; });
  co_return co_await gyre::from_sender(std::move(adding));
}

void print_sum(gyre::loop& loop, gyre::thread_pool& pool) {
  auto sum = ex::then(gyre::as_sender(loop, add_on(pool, 40, 2)),
                      [](int value) { std::cout << value << '\n'; });
  ex::sync_wait(std::move(sum));
}

int main() {
  gyre::thread_pool pool;
  gyre::loop_thread other({.name = "worker"});
  print_sum(other.loop(), pool);
}
