// SPDX-License-Identifier: Apache-2.0
// Guide to pools, part 3: the capacity of a pool.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/task.hpp>

#include <atomic>
#include <chrono>
#include <iostream>
#include <latch>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

void refuse_what_is_too_much() {
  std::latch begun(1);
  std::latch go_on(1);
  gyre::thread_pool pool({.workers = 1, .capacity = 2, .when_full = gyre::when_full::reject});
  pool.post([&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  int refused = 0;
  for (int i = 0; i < 5; ++i) {
    if (!pool.try_post([] {})) ++refused;
  }
  go_on.count_down();
  std::cout << refused << " refused\n";
}

void wait_for_a_place() {
  std::atomic<int> done = 0;
  gyre::thread_pool pool({.workers = 1, .capacity = 2, .block_timeout = 1min});
  for (int i = 0; i < 1000; ++i) pool.post([&done] { ++done; });
  pool.drain();
  std::cout << done << " done\n";
}

gyre::task<> submit_from_a_loop(gyre::thread_pool& pool) {
  std::vector<gyre::future<int>> answers;
  for (int i = 1; i <= 100; ++i) {
    auto submitting = pool.async_submit([i] { return i * i; });
    gyre::future<int> answer = co_await std::move(submitting);  // waits for a slot
    answers.push_back(std::move(answer));
  }
  int sum = 0;
  for (gyre::future<int>& each : answers) {
    const int answer = co_await std::move(each);  // waits for the task
    sum += answer;
  }
  std::cout << sum << '\n';
}

int main() {
  refuse_what_is_too_much();
  wait_for_a_place();
  gyre::thread_pool pool({.workers = 1, .capacity = 2});
  gyre::loop loop;
  gyre::sync_wait(loop, submit_from_a_loop(pool));
}
