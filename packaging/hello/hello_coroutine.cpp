// SPDX-License-Identifier: Apache-2.0
// Coroutines on a pool, in a program that needs no library but gyre's first rooms.
#include <gyre/base/version.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <iostream>

gyre::task<int> twice(int number) { co_return 2 * number; }

gyre::task<int> sum_of_both() {
  auto [six, eight] = co_await gyre::when_all(twice(3), twice(4));
  co_return six + eight;
}

int main() {
  gyre::thread_pool pool({.workers = 2});
  std::cout << gyre::sync_wait(gyre::on(pool, sum_of_both())) << " by gyre "
            << gyre::library_version() << '\n';
}
