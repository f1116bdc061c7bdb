// SPDX-License-Identifier: Apache-2.0
// A parallel merge sort: one half is forked, so that another worker may take it. For
// docs/guide/patterns.md.
#include <gyre/gyre.hpp>

#include <algorithm>
#include <iostream>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace {

gyre::task<> merge_sort(std::span<int> numbers, std::span<int> scratch) {
  constexpr std::size_t cut_off = 2048;  // below, a fork costs more than it gains
  if (numbers.size() <= cut_off) {
    std::ranges::sort(numbers);
    co_return;
  }
  const std::size_t half = numbers.size() / 2;
  const auto first = numbers.first(half);
  const auto second = numbers.subspan(half);
  auto sorting = co_await gyre::fork(merge_sort(first, scratch.first(half)));
  co_await merge_sort(second, scratch.subspan(half));
  co_await std::move(sorting);
  std::ranges::merge(first, second, scratch.begin());
  std::ranges::copy(scratch, numbers.begin());
}

}  // namespace

int main() {
  std::vector<int> numbers(1'000'000);
  std::mt19937 random(7);
  std::ranges::generate(numbers, random);
  std::vector<int> scratch(numbers.size());
  gyre::thread_pool pool;
  gyre::sync_wait(gyre::on(pool, merge_sort(numbers, scratch)));
  std::cout << (std::ranges::is_sorted(numbers) ? "sorted" : "not sorted") << '\n';
}
