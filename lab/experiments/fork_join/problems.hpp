// SPDX-License-Identifier: Apache-2.0
// The four problems and their answers: recursive Fibonacci (two forks for next to no work), the sum
// of a wide tree (eight forks at once), N queens (an uneven tree) and blocked matrix multiplication
// (few tasks with much work).
#pragma once

#include <lab/harness/arguments.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lab::fork_join {

enum class shape { fibonacci, tree_sum, queens, matrix };

/// A node of a tree in which all but the leaves have `width` children.
struct tree {
  static constexpr std::uint32_t width = 8;

  std::uint64_t value = 1;
  std::vector<tree> children;

  void grow(std::uint32_t levels) {
    if (levels == 0) return;
    children.resize(width);
    for (tree& each : children) {
      each.value = value + 1;
      each.grow(levels - 1);
    }
  }
};

/// Queens on the first rows that do not attack each other; bit i stands for column i.
struct board {
  static constexpr std::uint32_t largest = 16;

  bool full() const { return columns == all; }

  std::uint32_t all = 0;
  std::uint32_t columns = 0;
  std::uint32_t left = 0;
  std::uint32_t right = 0;
};

struct boards {
  std::array<board, board::largest> each;
  std::size_t count = 0;
};

/// The boards with one more queen, in the next row.
inline boards after(const board& from) {
  boards found;
  std::uint32_t open = from.all & ~(from.columns | from.left | from.right);
  for (; open != 0; open &= open - 1) {
    const std::uint32_t queen = open & -open;
    found.each[found.count++] = {from.all, from.columns | queen, (from.left | queen) << 1,
                                 (from.right | queen) >> 1};
  }
  return found;
}

/// A product of square matrices, computed block by block. All elements are small integers, so the
/// product is exact.
class product {
 public:
  static constexpr std::size_t block = 32;

  explicit product(std::size_t size) : size_(size), a_(size * size), b_(a_), c_(a_) {
    for (std::size_t i = 0; i < a_.size(); ++i) {
      a_[i] = static_cast<double>(i % 7);
      b_[i] = static_cast<double>(i % 5);
    }
  }

  std::size_t blocks() const { return (size_ / block) * (size_ / block); }
  void compute_block(std::size_t number) {
    const std::size_t per_row = size_ / block;
    const std::size_t row = number / per_row * block;
    const std::size_t column = number % per_row * block;
    std::array<double, block * block> sums{};
    for (std::size_t k = 0; k < size_; ++k) {
      const double* const b = &b_[k * size_ + column];
      for (std::size_t i = 0; i < block; ++i) {
        const double a = a_[(row + i) * size_ + k];
        for (std::size_t j = 0; j < block; ++j) sums[i * block + j] += a * b[j];
      }
    }
    for (std::size_t i = 0; i < block; ++i) {
      for (std::size_t j = 0; j < block; ++j) {
        c_[(row + i) * size_ + column + j] = sums[i * block + j];
      }
    }
  }

  /// Resets the product to zero.
  void clear() { c_.assign(c_.size(), 0); }
  /// Rows with a correct sum: the sum of a row of C is A's row times the row sums of B.
  std::uint64_t right_rows() const {
    std::vector<double> sums_of_b(size_);
    for (std::size_t i = 0; i < b_.size(); ++i) sums_of_b[i / size_] += b_[i];
    std::uint64_t right = 0;
    for (std::size_t row = 0; row < size_; ++row) {
      double expected = 0;
      double actual = 0;
      for (std::size_t i = 0; i < size_; ++i) {
        expected += a_[row * size_ + i] * sums_of_b[i];
        actual += c_[row * size_ + i];
      }
      right += expected == actual ? 1 : 0;
    }
    return right;
  }

 private:
  std::size_t size_;
  std::vector<double> a_;
  std::vector<double> b_;
  std::vector<double> c_;
};

/// A problem and its answer.
class problem {
 public:
  problem(fork_join::shape problem_shape, std::uint32_t problem_size)
      : shape(problem_shape),
        size(problem_size),
        matrices(problem_shape == shape::matrix ? problem_size : 0) {
    switch (shape) {
      case shape::fibonacci: count_calls(); break;
      case shape::tree_sum:
        if (size > 8) throw usage_error("size: a tree has at most 8 levels");
        root.grow(size);
        count_nodes(root);
        break;
      case shape::queens:
        if (size > board::largest) throw usage_error("size: a board has at most 16 queens");
        start.all = (1U << size) - 1;
        count_boards(start);
        break;
      case shape::matrix:
        if (size % product::block != 0)
          throw usage_error("size: the rows of a matrix must be a multiple of 32");
        tasks = matrices.blocks();
        answer = tasks;
        break;
    }
  }

  const fork_join::shape shape;
  const std::uint32_t size;  // Fibonacci's n, levels of the tree, queens, rows of the matrices
  tree root;
  board start;
  product matrices;

  std::uint64_t tasks = 0;   // calls of the function that forks, or blocks
  std::uint64_t answer = 0;  // of matrices: the number of blocks; see product::right_rows()

 private:
  void count_calls() {
    std::uint64_t next = 1;
    for (std::uint32_t i = 0; i < size; ++i) {
      const std::uint64_t sum = answer + next;
      answer = next;
      next = sum;
    }
    tasks = 2 * next - 1;
  }
  void count_nodes(const tree& node) {
    ++tasks;
    answer += node.value;
    for (const tree& each : node.children) count_nodes(each);
  }
  void count_boards(const board& from) {
    ++tasks;
    answer += from.full() ? 1 : 0;
    if (from.full()) return;
    const boards further = after(from);
    for (std::size_t i = 0; i < further.count; ++i) count_boards(further.each[i]);
  }
};

}  // namespace lab::fork_join
