// SPDX-License-Identifier: Apache-2.0
// release_queue: the deferred releases that wait for their loop, or for its end.
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/executor.hpp>

#include <cstdint>

namespace gyre::detail {

/// When a release runs.
enum class release_point : std::uint8_t {
  loop_turn,
  loop_end,  ///< no thread runs the loop any more; the release must not throw
};

/// A release as its loop sees it: a node that its owner has had from the beginning, so that posting
/// it cannot fail. Unlike an operation it is not lost when the loop is destroyed.
class release_node : public intrusive_node {
 public:
  using function = void (*)(release_node&, release_point);

  explicit release_node(function callback) noexcept : run_(callback) {}
  release_node& operator=(release_node&&) = delete;

  /// May destroy the node, or post it again.
  void run(release_point point) { run_(*this, point); }

 protected:
  ~release_node() = default;

 private:
  function run_;
};

/// A loop's releases, and the operation that runs them in a turn.
class release_queue final : public operation {
 public:
  explicit release_queue(executor& loop) noexcept : operation(&run_in_turn), loop_(loop) {}
  /// Whether the queue was empty: then the caller posts the queue to the loop. Any thread.
  bool push(release_node& release) noexcept { return releases_.push(release); }
  /// Runs all releases in the loop's destructor. False if there was none.
  bool run_at_loop_end() noexcept;

 private:
  static void run_in_turn(operation& queue);

  executor& loop_;
  atomic_intrusive_stack<release_node> releases_;
};

}  // namespace gyre::detail
