// SPDX-License-Identifier: Apache-2.0
// Guide to pools, part 5: loops on all workers.
#include <gyre/pool/parallel.hpp>
#include <gyre/pool/thread_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iostream>
#include <span>
#include <vector>

void sort(gyre::thread_pool& pool, std::span<int> numbers) {
  if (numbers.size() < 1000) {
    std::ranges::sort(numbers);
    return;
  }
  const std::size_t half = numbers.size() / 2;
  std::ranges::nth_element(numbers, numbers.begin() + static_cast<std::ptrdiff_t>(half));
  gyre::parallel_invoke(
      pool, [&] { sort(pool, numbers.first(half)); }, [&] { sort(pool, numbers.subspan(half)); });
}

int main() {
  gyre::thread_pool pool(2);
  std::vector<int> numbers(100'000);
  gyre::parallel_for(pool, std::size_t{0}, numbers.size(), [&](std::size_t i) {
    numbers[i] = static_cast<int>(i * 7919 % numbers.size());
  });
  const long sum = gyre::parallel_reduce(
      pool, numbers, 0L, [](int number) { return long{number}; }, std::plus());
  sort(pool, numbers);
  std::cout << sum << ' ' << std::ranges::is_sorted(numbers) << '\n';
}
