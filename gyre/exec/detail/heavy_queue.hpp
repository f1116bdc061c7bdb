// SPDX-License-Identifier: Apache-2.0
// heavy_queue: operations that each compute for long, such as steps of TLS handshakes. A loop runs
// few of them in a turn.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/exec/poller.hpp>

#include <chrono>
#include <cstddef>

namespace gyre {

/// A work item for event_loop::defer_heavy(). Derive from it, and pass the function to run.
///
/// Thread-safety: belongs to the loop's thread.
/// Lifetime: must stay alive and in place until its function is called, which may destroy or defer
/// the operation again, or until unlink(), after which the function is not called. The destructor
/// unlinks.
class heavy_operation : public intrusive_list_node {
 public:
  using function = void (*)(heavy_operation&);

  explicit heavy_operation(function run) noexcept : execute_(run) {}
  heavy_operation& operator=(heavy_operation&&) = delete;

  void execute() { execute_(*this); }

 protected:
  ~heavy_operation() { unlink(); }

 private:
  function execute_;
};

namespace detail {

/// The queue of heavy operations that wait for a turn of the loop.
///
/// Thread-safety: belongs to the loop's thread.
class heavy_queue {
 public:
  /// Limits the operations of a turn in addition to the time limit, because the clock may be
  /// virtual.
  static constexpr std::size_t max_per_turn = 16;

  bool empty() const noexcept { return operations_.empty(); }
  void push_back(heavy_operation& op) noexcept { operations_.push_back(op); }

  /// Runs operations, at least one, until `limit` has passed or max_per_turn have run; adds 1 to
  /// `ran` before each.
  void run(const poller& clock, std::chrono::nanoseconds limit, std::size_t& operation_count) {
    if (empty()) return;
    const steady_time begin = clock.now();
    for (std::size_t operations_left = max_per_turn; operations_left > 0; --operations_left) {
      heavy_operation* const next_operation = operations_.pop_front();
      if (next_operation == nullptr) return;
      ++operation_count;
      next_operation->execute();
      if (clock.now() - begin >= limit) return;
    }
  }

 private:
  intrusive_list<heavy_operation> operations_;
};

}  // namespace detail
}  // namespace gyre
