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

/// The reference-counted state of a strand. The queue is idle, or the core is posted to the target,
/// or a thread of the target runs the core. The push that finds the queue idle posts the core. A
/// posted core holds a share of itself, besides that of the strand, because an operation may
/// destroy the strand.
class strand_core final : public slab_object, operation {
 public:
  strand_core(executor& target, std::size_t max_per_turn) noexcept;

  /// Adds `op` to the queue. Any thread. The core may be gone afterwards.
  void post(operation& op) noexcept {
    if (queue_.push(op)) schedule();
  }
  /// Returns whether the calling thread is running an operation of the strand; not if that
  /// operation waits while the thread runs other work above it on the stack.
  bool running_here() const noexcept {
    // relaxed: only the thread's own run matters, and the thread has stored that itself.
    return active_run_.load(std::memory_order_relaxed) == current_run();
  }
  /// Returns whether an operation of the strand waits further down on the calling thread's stack.
  bool waits_below() const noexcept {
    // relaxed: only the thread's own run matters, and the thread has stored that itself.
    const void* const run = active_run_.load(std::memory_order_relaxed);
    return run != current_run() && is_run_of_this_thread(run);
  }
  /// Closes the queue: no operation runs from now on. Waits for an operation that runs on another
  /// thread. Returns the operations that have not run.
  intrusive_queue<operation> close() noexcept;
  void release() noexcept;

 private:
  class turn;

  ~strand_core() = default;
  static void run(operation& self);
  void schedule() noexcept;

  executor& target_;
  mpsc_queue queue_;
  intrusive_queue<operation> taken_operations_;  // only the thread that runs the core uses them
  atomic<const void*> active_run_{nullptr};      // current_run() of the thread that runs the core
  atomic<std::uint32_t> shares_{1};
  atomic<bool> is_closed_{false};
  const std::uint8_t max_per_turn_;
};

}  // namespace gyre::detail
