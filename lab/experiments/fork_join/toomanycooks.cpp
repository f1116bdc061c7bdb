// SPDX-License-Identifier: Apache-2.0
// TooManyCooks as in its own benchmarks: spawn_tuple, and spawn_many of a fixed size over a view
// that makes the tasks, on its executor of several threads.
#define TMC_IMPL
#include <lab/experiments/fork_join/coroutines.hpp>
#include <lab/experiments/fork_join/toomanycooks_runtime.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <ranges>

namespace {

using lab::fork_join::board;
using lab::fork_join::boards;
using lab::fork_join::problem;
using lab::fork_join::toomanycooks_runtime;
using lab::fork_join::tree;
using task = tmc::task<std::uint64_t>;

task sum_of(const tree& node) {
  if (node.children.empty()) co_return node.value;
  auto children = std::views::iota(std::size_t{0}, std::size_t{tree::width}) |
                  std::views::transform([&](std::size_t i) { return sum_of(node.children[i]); });
  const auto sums = co_await tmc::spawn_many<tree::width>(children.begin());
  co_return node.value + lab::fork_join::total(sums);
}

task solutions(board from) {
  if (from.full()) co_return 1;
  const boards further = lab::fork_join::after(from);
  if (further.count == 0) co_return 0;
  auto children = std::views::iota(std::size_t{0}, further.count) |
                  std::views::transform([&](std::size_t i) { return solutions(further.each[i]); });
  const auto counts = co_await tmc::spawn_many<board::largest>(children.begin(), children.end());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < further.count; ++i) sum += counts[i];
  co_return sum;
}

class toomanycooks_pool {
 public:
  explicit toomanycooks_pool(std::uint32_t workers) : workers_(workers) {}

  std::uint64_t solve(problem& what) {
    switch (what.shape) {
      case lab::fork_join::shape::tree_sum: return workers_.run(sum_of(what.root));
      case lab::fork_join::shape::queens: return workers_.run(solutions(what.start));
      default: return workers_.run(lab::fork_join::solve<toomanycooks_runtime>(what));
    }
  }

 private:
  toomanycooks_runtime::pool workers_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::fork_join::contender_main<toomanycooks_pool>(argc, argv, {{"TooManyCooks", "1.7"}});
}
