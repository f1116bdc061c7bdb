// SPDX-License-Identifier: Apache-2.0
// Guide to pools, part 4: coroutines and pools.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/strand.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/pool/thread_pool.hpp>
#include <gyre/task/fork.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/sync_wait.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

using namespace std::chrono_literals;

std::uint64_t fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

gyre::task<> answer_from_the_loop(gyre::thread_pool& pool) {
  auto computing = pool.submit([] { return fibonacci(20); });
  const std::uint64_t number = co_await std::move(computing);
  std::cout << number << '\n';
}

gyre::task<std::uint64_t> count_on(gyre::thread_pool& pool) {
  co_await gyre::resume_on(pool);
  co_return fibonacci(20);
}

gyre::task<std::uint64_t> forked(unsigned n) {
  if (n < 10) co_return fibonacci(n);
  auto [one, other] = co_await gyre::when_all(forked(n - 1), forked(n - 2));
  co_return one + other;
}

gyre::task<std::uint64_t> forked_sum() {
  std::array<std::uint64_t, 19> numbers{};
  const auto number = [](std::size_t i) { return forked(static_cast<unsigned>(i)); };
  co_await gyre::when_all_into(std::span(numbers), number);
  co_return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

gyre::task<std::uint64_t> forked_first(unsigned n) {
  if (n < 10) co_return fibonacci(n);
  auto one = co_await gyre::fork(forked_first(n - 1));
  const std::uint64_t other = co_await forked_first(n - 2);
  const std::uint64_t first = co_await std::move(one);
  co_return first + other;
}

gyre::task<std::uint64_t> after_a_while() {
  co_await gyre::sleep_for(1ms);
  co_return 3;
}

gyre::task<> deposit(int& balance, int amount) {
  balance += amount;
  co_return;
}

gyre::task<int> two_deposits(gyre::thread_pool& pool) {
  int balance = 0;
  gyre::strand account(pool);
  auto one = gyre::on(account, deposit(balance, 10));
  auto other = gyre::on(account, deposit(balance, 20));
  co_await gyre::when_all(std::move(one), std::move(other));
  co_return balance;
}

int main() {
  gyre::thread_pool pool(2);
  gyre::loop loop;
  gyre::sync_wait(loop, answer_from_the_loop(pool));
  std::cout << gyre::sync_wait(count_on(pool)) << '\n';
  std::cout << gyre::sync_wait(gyre::on(pool, forked(20))) << '\n';
  std::cout << gyre::sync_wait(gyre::on(pool, forked_sum())) << '\n';
  std::cout << gyre::sync_wait(gyre::on(pool, forked_first(20))) << '\n';
  std::cout << gyre::sync_wait(gyre::on(pool, after_a_while())) << '\n';
  std::cout << gyre::sync_wait(gyre::on(pool, two_deposits(pool))) << '\n';
}
