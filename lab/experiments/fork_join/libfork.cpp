// SPDX-License-Identifier: Apache-2.0
// libfork: fork, call and join on its pool whose idle workers sleep.
#include <lab/experiments/fork_join/libfork_calls.hpp>
#include <lab/experiments/fork_join/problems.hpp>
#include <lab/experiments/fork_join/workload.hpp>

#include <libfork/core.hpp>
#include <libfork/schedule.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace {

using lab::fork_join::after;
using lab::fork_join::board;
using lab::fork_join::boards;
using lab::fork_join::call;
using lab::fork_join::fork;
using lab::fork_join::product;
using lab::fork_join::shape;
using lab::fork_join::tree;

constexpr auto fibonacci = [](auto self, std::uint32_t n) -> lf::task<std::uint64_t> {
  if (n < 2) co_return n;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  co_await fork(&a, self)(n - 1);
  co_await call(&b, self)(n - 2);
  co_await lf::join;
  co_return a + b;
};

constexpr auto sum_of = [](auto self, const tree* node) -> lf::task<std::uint64_t> {
  if (node->children.empty()) co_return node->value;
  std::array<std::uint64_t, tree::width> sums;  // each is written before it is read
  for (std::size_t i = 0; i + 1 < tree::width; ++i) {
    co_await fork(&sums[i], self)(&node->children[i]);
  }
  co_await call(&sums.back(), self)(&node->children.back());
  co_await lf::join;
  std::uint64_t all = node->value;
  for (const std::uint64_t each : sums) all += each;
  co_return all;
};

constexpr auto solutions = [](auto self, board from) -> lf::task<std::uint64_t> {
  if (from.full()) co_return 1;
  const boards further = after(from);
  if (further.count == 0) co_return 0;
  std::array<std::uint64_t, board::largest> counts;
  for (std::size_t i = 0; i + 1 < further.count; ++i) {
    co_await fork(&counts[i], self)(further.each[i]);
  }
  co_await call(&counts[further.count - 1], self)(further.each[further.count - 1]);
  co_await lf::join;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < further.count; ++i) all += counts[i];
  co_return all;
};

constexpr auto multiply_from = [](auto self, product* matrices, std::size_t first,
                                  std::size_t last) -> lf::task<void> {
  if (last - first == 1) {
    matrices->compute_block(first);
    co_return;
  }
  const std::size_t middle = first + (last - first) / 2;
  co_await fork(self)(matrices, first, middle);
  co_await call(self)(matrices, middle, last);
  co_await lf::join;
};

class libfork_pool {
 public:
  explicit libfork_pool(std::uint32_t workers) : pool_(workers) {}

  std::uint64_t solve(lab::fork_join::problem& what) {
    switch (what.shape) {
      case shape::fibonacci: return lf::sync_wait(pool_, fibonacci, what.size);
      case shape::tree_sum: return lf::sync_wait(pool_, sum_of, &what.root);
      case shape::queens: return lf::sync_wait(pool_, solutions, what.start);
      case shape::matrix: break;
    }
    lf::sync_wait(pool_, multiply_from, &what.matrices, std::size_t{0}, what.matrices.blocks());
    return what.matrices.blocks();
  }

 private:
  lf::lazy_pool pool_;
};

}  // namespace

int main(int argc, char** argv) {
  return lab::fork_join::contender_main<libfork_pool>(argc, argv, {{"libfork", "3.8"}});
}
