// SPDX-License-Identifier: Apache-2.0
// strand_core: the queue of a strand, and the operation that runs it on another executor.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/mpsc_queue.hpp>
#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/task/detail/nested_run.hpp>
#include <gyre/task/executor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// The queue is idle, or the core is posted to the target, or a thread of the target runs it. The
/// push that finds it idle posts it. A posting owns a share of the core, as the strand does, since
/// the last operation of a turn may lead to the strand's end.
class strand_core final : public slab_object, operation {
 public:
  strand_core(executor& target, std::size_t max_per_turn) noexcept;

  /// Any thread. The core may be gone afterwards.
  void post(operation& op) noexcept {
    if (queue_.push(op)) schedule();
  }
  /// Whether an operation of the strand is what the calling thread runs: not one that waits while
  /// the thread runs other work above it.
  bool running_here() const noexcept {
    // relaxed: a thread's own run is its own store.
    return active_run_.load(std::memory_order_relaxed) == current_run();
  }
  /// Whether an operation of the strand waits further down in the calling thread's stack.
  bool waits_below() const noexcept {
    // relaxed: a thread's own run is its own store.
    const void* const run = active_run_.load(std::memory_order_relaxed);
    return run != current_run() && is_run_of_this_thread(run);
  }
  /// Ends the share of the strand: no operation runs from now on. Waits for one that runs on
  /// another thread. Returns those that are left.
  intrusive_queue<operation> close() noexcept;
  void release() noexcept;

 private:
  class turn;

  ~strand_core() = default;
  static void run(operation& self);
  void schedule() noexcept;

  executor& target_;
  mpsc_queue queue_;
  intrusive_queue<operation> taken_;         // the running thread's
  atomic<const void*> active_run_{nullptr};  // the run of the thread, as current_run()
  atomic<std::uint32_t> shares_{1};
  atomic<bool> closed_{false};
  const std::uint8_t max_per_turn_;
};

}  // namespace gyre::detail
