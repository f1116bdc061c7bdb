// SPDX-License-Identifier: Apache-2.0
// The problems solved by functions that call themselves through a `Fork`:
//   fork.both(f, g)    calls both
//   fork.sum(n, f)     adds up f(0) … f(n - 1)
//   fork.each(n, f)    calls f(0) … f(n - 1), each of which is much work
#pragma once

#include <lab/experiments/fork_join/problems.hpp>

#include <cstddef>
#include <cstdint>

namespace lab::fork_join {

template <class Fork>
std::uint64_t fibonacci(Fork& fork, std::uint32_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  fork.both([&] { a = fibonacci(fork, n - 1); }, [&] { b = fibonacci(fork, n - 2); });
  return a + b;
}

template <class Fork>
std::uint64_t sum_of(Fork& fork, const tree& node) {
  if (node.children.empty()) return node.value;
  return node.value + fork.sum(node.children.size(),
                               [&](std::size_t i) { return sum_of(fork, node.children[i]); });
}

template <class Fork>
std::uint64_t solutions(Fork& fork, const board& from) {
  if (from.full()) return 1;
  const boards further = after(from);
  return fork.sum(further.count, [&](std::size_t i) { return solutions(fork, further.each[i]); });
}

template <class Fork>
std::uint64_t multiply(Fork& fork, product& matrices) {
  fork.each(matrices.blocks(), [&](std::size_t number) { matrices.compute_block(number); });
  return matrices.blocks();
}

template <class Fork>
std::uint64_t solve(Fork& fork, problem& what) {
  switch (what.shape) {
    case shape::fibonacci: return fibonacci(fork, what.size);
    case shape::tree_sum: return sum_of(fork, what.root);
    case shape::queens: return solutions(fork, what.start);
    case shape::matrix: return multiply(fork, what.matrices);
  }
  return 0;
}

}  // namespace lab::fork_join
