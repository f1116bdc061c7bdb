// SPDX-License-Identifier: Apache-2.0
// Guide to pools, parts 6 and 7: priorities, the shutdown of a pool, and its metrics.
#include <gyre/pool/future.hpp>
#include <gyre/pool/thread_pool.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <iostream>
#include <latch>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace std::chrono_literals;

void urgent_first() {
  std::string order;
  std::latch all_wait(1);
  gyre::thread_pool pool({.workers = 1, .aging = 1min});
  pool.post([&] { all_wait.wait(); });
  pool.post([&] { order += "c"; }, gyre::task_priority::low);
  pool.post([&] { order += "b"; });
  pool.post([&] { order += "a"; }, gyre::task_priority::high);
  all_wait.count_down();
  pool.wait_idle();
  std::cout << order << '\n';
}

void errors_go_to_the_hook() {
  std::atomic<int> errors = 0;
  gyre::thread_pool pool(
      {.workers = 2, .on_exception = [&](const std::exception_ptr&) { ++errors; }});
  pool.post([] { throw std::runtime_error("lost otherwise"); });
  pool.wait_idle();
  std::cout << errors << " error\n";
}

void later() {
  std::atomic<bool> rang = false;
  gyre::thread_pool pool(1);
  pool.post_after(2ms, [&] {
    rang = true;
    rang.notify_one();
  });
  rang.wait(false);
  std::cout << "two milliseconds later\n";
}

void give_up() {
  std::latch begun(1);
  std::latch go_on(1);
  gyre::thread_pool pool(1);
  pool.post([&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  gyre::future<int> never = pool.submit([] { return 1; });
  std::cout << pool.purge() << " dropped\n";
  go_on.count_down();
  try {
    never.get();
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::operation_canceled) std::cout << "there is no result\n";
  }
}

void what_it_has_done() {
  gyre::thread_pool pool({.workers = 2, .record_times = true});
  for (int i = 0; i < 1000; ++i) pool.post([] {});
  pool.wait_idle();
  const gyre::thread_pool_metrics seen = pool.metrics();
  std::cout << seen.finished << " finished, " << seen.queue_wait.count() << " timed\n";
  if (seen.queue_wait.quantile(0.99) > 10s) std::cout << "too few workers\n";
}

int main() {
  urgent_first();
  errors_go_to_the_hook();
  later();
  give_up();
  what_it_has_done();
}
