// SPDX-License-Identifier: Apache-2.0
// gyre: when_all and when_all_into of gyre::task on a pool that steals.
#include <lab/experiments/fork_join/coroutines.hpp>
#include <lab/experiments/fork_join/gyre_runtime.hpp>
#include <lab/experiments/fork_join/problems.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace {

using lab::fork_join::after;
using lab::fork_join::board;
using lab::fork_join::boards;
using lab::fork_join::gyre_runtime;
using lab::fork_join::multiply;
using lab::fork_join::shape;
using lab::fork_join::total;
using lab::fork_join::tree;

gyre::task<std::uint64_t> fibonacci(std::uint32_t n) {
  if (n < 2) co_return n;
  const auto [a, b] = co_await gyre::when_all(fibonacci(n - 1), fibonacci(n - 2));
  co_return a + b;
}

gyre::task<std::uint64_t> sum_of(const tree& node) {
  if (node.children.empty()) co_return node.value;
  std::array<std::uint64_t, tree::width> sums;
  const auto child = [&node](std::size_t i) { return sum_of(node.children[i]); };
  co_await gyre::when_all_into(std::span(sums), child);
  co_return node.value + total(sums);
}

gyre::task<std::uint64_t> solutions(board from) {
  if (from.full()) co_return 1;
  const boards further = after(from);
  if (further.count == 0) co_return 0;
  std::array<std::uint64_t, board::largest> counts;
  const auto found = std::span(counts).first(further.count);
  const auto child = [&further](std::size_t i) { return solutions(further.each[i]); };
  co_await gyre::when_all_into(found, child);
  co_return total(found);
}

class gyre_pool {
 public:
  explicit gyre_pool(std::uint32_t workers) : pool_(workers) {}

  std::uint64_t solve(lab::fork_join::problem& what) {
    switch (what.shape) {
      case shape::fibonacci: return pool_.run(fibonacci(what.size));
      case shape::tree_sum: return pool_.run(sum_of(what.root));
      case shape::queens: return pool_.run(solutions(what.start));
      case shape::matrix: break;
    }
    return pool_.run(multiply<gyre_runtime>(what.matrices));
  }

 private:
  gyre_runtime::pool pool_;
};

}  // namespace

int main(int argc, char** argv) { return lab::fork_join::contender_main<gyre_pool>(argc, argv); }
