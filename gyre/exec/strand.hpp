// SPDX-License-Identifier: Apache-2.0
// strand: a serial executor on top of another executor, like asio's strand.
//
//     gyre::strand account(pool);
//     gyre::spawn(account, deposit(10));  // on any thread of the pool, but never both at once:
//     gyre::spawn(account, deposit(20));  // the balance needs no lock
#pragma once

#include <gyre/task/executor.hpp>

#include <cstddef>

namespace gyre {
namespace detail {

class strand_core;

}  // namespace detail

/// Runs operations on another executor, a pool or a loop, but never two at once: in the order of
/// their posts, where the end of each operation happens before the next one. Coroutines of a strand
/// need no lock for data that only they use, until their next co_await; a strand has no thread of
/// its own and blocks none.
///
/// After `max_per_turn` operations the strand is posted again to the end of the other executor's
/// queue, so that it cannot starve other operations there.
///
/// timers() are those of the other executor, so sleep_for(), with_timeout() and similar functions
/// work, and continue on the strand. If a time limit requests a stop, stop callbacks may run while
/// an operation of the strand runs on another thread. Sockets work if the other executor is their
/// loop. Children of when_all() and fork() run on the strand as well, so one after the other.
///
/// Thread-safety: every member but the destructor may be called from any thread.
/// Lifetime: the other executor must outlive the strand, and the strand must outlive the coroutines
/// that have started on it, including those that wait and would be resumed on the strand. It may be
/// destroyed by one of its operations, or as soon as the last coroutine has delivered its result.
/// The destructor destroys spawned coroutines that have not started, and waits for an operation
/// that still runs on another thread.
/// Errors: an exception of an operation is passed to the other executor; the following operations
/// still run.
/// Complexity: a block of 64 bytes from the slab. post(): one compare-and-swap, no allocation, and
/// a post to the other executor if the strand was idle. spawn() costs 32 bytes more than elsewhere.
class strand final : public executor {
 public:
  /// The most operations that run in one turn of the other executor, before its other tasks get a
  /// turn.
  static constexpr std::size_t max_per_turn = 64;

  /// `target` may be a strand: use strand(static_cast<executor&>(other)), because strand(other)
  /// would be a copy. Throws std::bad_alloc.
  explicit strand(executor& target);
  strand& operator=(strand&&) = delete;
  ~strand();

  void post(operation& op) noexcept override;
  void post_discardable(operation& op, void (*discard)(operation& op) noexcept) override;
  /// Returns whether the calling thread is in an operation of the strand; not if a worker of a pool
  /// runs another task while that operation waits.
  bool running_here() const noexcept override;
  bool runs_only_here() const noexcept override;
  timer_service* timers() noexcept override { return target_.timers(); }

  /// Returns the executor that runs the operations.
  executor& target() const noexcept { return target_; }

 private:
  executor& target_;
  detail::strand_core* core_;
};

}  // namespace gyre
