// SPDX-License-Identifier: Apache-2.0
// release_queue: the deferred releases that a loop runs in its next turn or when it is destroyed.
#pragma once

#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/intrusive_stack.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/executor.hpp>

#include <cstdint>

namespace gyre::detail {

/// The point at which a release runs.
enum class release_point : std::uint8_t {
  loop_turn,
  loop_end,  ///< no thread runs the loop any more; the release must not throw
};

/// A node of a release_queue. The owner of a release has the node as a member, so that posting a
/// release cannot fail. Unlike an operation, a release is run even if the loop is destroyed.
class release_node : public intrusive_node {
 public:
  using function = void (*)(release_node&, release_point);

  explicit release_node(function callback) noexcept : run_(callback) {}
  release_node& operator=(release_node&&) = delete;

  /// Calls the function of the node, which may destroy the node, or post it again.
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
  /// Adds `release`. Returns whether the queue was empty: the caller must then post the queue to
  /// the loop. Any thread.
  bool push(release_node& release) noexcept { return releases_.push(release); }
  /// Runs all releases. Called by the loop's destructor. Returns false if there was none.
  bool run_at_loop_end() noexcept;

 private:
  static void run_in_turn(operation& op);

  executor& loop_;
  atomic_intrusive_stack<release_node> releases_;
};

}  // namespace gyre::detail
