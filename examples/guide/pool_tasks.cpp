// SPDX-License-Identifier: Apache-2.0
// Guide to pools, parts 1 and 2: tasks, their futures, and tasks that wait for tasks.
#include <gyre/pool/future.hpp>
#include <gyre/pool/thread_pool.hpp>

#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

int square(int number) { return number * number; }

void first_task() {
  gyre::thread_pool pool(2);
  gyre::future<int> answer = pool.submit([] { return square(6) + square(1) + 5; });
  std::cout << answer.get() << '\n';
}

void failed_task() {
  gyre::thread_pool pool(2);
  gyre::future<int> number = pool.submit([] { return std::stoi("forty-two"); });
  try {
    std::cout << number.get() << '\n';
  } catch (const std::invalid_argument&) {
    std::cout << "not a number\n";
  }
}

struct tree {
  int value = 1;
  std::vector<tree> children = {};
};

int sum(gyre::thread_pool& pool, const tree& from) {
  std::vector<gyre::future<int>> parts;
  for (const tree& child : from.children) {
    parts.push_back(pool.submit([&pool, &child] { return sum(pool, child); }));
  }
  int total = from.value;
  for (gyre::future<int>& part : parts) total += part.get();
  return total;
}

tree grown(int depth) {
  tree result;
  if (depth > 0) result.children.assign(3, grown(depth - 1));
  return result;
}

void nested_tasks() {
  gyre::thread_pool pool(1);
  const tree whole = grown(4);
  std::cout << pool.submit([&] { return sum(pool, whole); }).get() << '\n';
}

int main() {
  first_task();
  failed_task();
  nested_tasks();
}
