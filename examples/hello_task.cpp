// SPDX-License-Identifier: Apache-2.0
// Two concurrent coroutines, and a time limit for both.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>
#include <gyre/task/with_timeout.hpp>

#include <chrono>
#include <iostream>

using namespace std::chrono_literals;

gyre::task<int> twice(int number) {
  co_await gyre::sleep_for(100ms);  // stands for a request to a server
  co_return 2 * number;
}

gyre::task<int> sum_of_both() {
  auto [six, eight] = co_await gyre::when_all(twice(3), twice(4));
  co_return six + eight;
}

int main() {
  gyre::loop loop;
  std::cout << gyre::sync_wait(loop, gyre::with_timeout(sum_of_both(), 10s)) << '\n';
}
