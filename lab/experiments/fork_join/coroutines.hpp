// SPDX-License-Identifier: Apache-2.0
// The problems solved by coroutines that await each other through a `Runtime`:
//   Runtime::task<T>        a coroutine
//   Runtime::both(a, b)     awaited, runs both and gives their results
//   Runtime::all(tasks)     awaited, runs all of a std::vector, which it may use up, and gives a
//                           range of their results
//   Runtime::pool           made of the number of workers; run(task) gives the result of a task
#pragma once

#include <lab/experiments/fork_join/problems.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lab::fork_join {

template <class Runtime>
using task_of = typename Runtime::template task<std::uint64_t>;

template <class Runtime>
task_of<Runtime> fibonacci(std::uint32_t n) {
  if (n < 2) co_return n;
  const auto [a, b] = co_await Runtime::both(fibonacci<Runtime>(n - 1), fibonacci<Runtime>(n - 2));
  co_return a + b;
}

template <class Results>
std::uint64_t total(const Results& results) {
  std::uint64_t sum = 0;
  for (const std::uint64_t each : results) sum += each;
  return sum;
}

template <class Runtime>
task_of<Runtime> sum_of(const tree& node) {
  if (node.children.empty()) co_return node.value;
  std::vector<task_of<Runtime>> children;
  children.reserve(node.children.size());
  for (const tree& each : node.children) children.push_back(sum_of<Runtime>(each));
  const auto sums = co_await Runtime::all(children);
  co_return node.value + total(sums);
}

template <class Runtime>
task_of<Runtime> solutions(board from) {
  if (from.full()) co_return 1;
  const boards further = after(from);
  if (further.count == 0) co_return 0;
  std::vector<task_of<Runtime>> children;
  children.reserve(further.count);
  for (std::size_t i = 0; i < further.count; ++i) {
    children.push_back(solutions<Runtime>(further.each[i]));
  }
  const auto counts = co_await Runtime::all(children);
  co_return total(counts);
}

template <class Runtime>
task_of<Runtime> block_of(product& matrices, std::size_t number) {
  matrices.compute_block(number);
  co_return 1;
}

template <class Runtime>
task_of<Runtime> multiply(product& matrices) {
  std::vector<task_of<Runtime>> blocks;
  for (std::size_t i = 0; i < matrices.blocks(); ++i) {
    blocks.push_back(block_of<Runtime>(matrices, i));
  }
  const auto done = co_await Runtime::all(blocks);
  co_return total(done);
}

template <class Runtime>
task_of<Runtime> solve(problem& what) {
  switch (what.shape) {
    case shape::fibonacci: return fibonacci<Runtime>(what.size);
    case shape::tree_sum: return sum_of<Runtime>(what.root);
    case shape::queens: return solutions<Runtime>(what.start);
    case shape::matrix: break;
  }
  return multiply<Runtime>(what.matrices);
}

/// The contender of a `Runtime`.
template <class Runtime>
class coroutine_pool {
 public:
  explicit coroutine_pool(std::uint32_t workers) : pool_(workers) {}

  std::uint64_t solve(problem& what) { return pool_.run(fork_join::solve<Runtime>(what)); }

 private:
  typename Runtime::pool pool_;
};

}  // namespace lab::fork_join
