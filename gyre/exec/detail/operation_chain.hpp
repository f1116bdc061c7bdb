// SPDX-License-Identifier: Apache-2.0
// operation_chain: the operations of one event_loop::post_all(), which the inbox stores as one
// task.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <cstddef>
#include <utility>

namespace gyre::detail {

/// The chain of operations that a loop is running. The inbox has one task for each chain, which
/// calls begin(). While a batch has run only part of the chain, the loop takes no other task from
/// the inbox, so that operations run in the order of their posts.
///
/// Thread-safety: add_pending(), subtract_pending() and pending() from any thread; the other
/// members belong to the loop's thread.
class operation_chain {
 public:
  /// Counts operations that wait in chains, without the first one of each chain, which the inbox
  /// counts.
  void add_pending(std::size_t operations) noexcept {
    // relaxed: the count orders nothing.
    pending_count_.fetch_add(operations, std::memory_order_relaxed);
  }
  void subtract_pending(std::size_t operations) noexcept {
    pending_count_.fetch_sub(operations, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t pending() const noexcept {
    return pending_count_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] bool empty() const noexcept { return next_ == nullptr; }
  /// Begins the chain of `first` and the operations linked after it, and runs them while the batch
  /// has room. Called as a task of the inbox. The inbox counts its tasks when it returns, so that
  /// the batch may become twice as long.
  void begin(operation& first, inbox::batch& batch) {
    next_ = &first;
    pop().execute();
    run(batch);
  }
  /// Runs operations of the chain while the batch has room, and ends the batch if some remain.
  /// After an exception of an operation, the next call continues with the operation after it.
  void run(inbox::batch& batch) {
    struct count_at_exit {
      operation_chain& chain;
      std::size_t operation_count = 0;
      ~count_at_exit() { chain.subtract_pending(operation_count); }
    } count{*this};
    while (next_ != nullptr && batch.more()) {
      operation& next_operation = pop();
      batch.count(1);
      ++count.operation_count;
      next_operation.execute();
    }
    if (next_ != nullptr) batch.end();
  }

 private:
  operation& pop() noexcept {
    operation& first = *std::exchange(next_, static_cast<operation*>(next_->next));
    first.next = nullptr;
    if (next_ != nullptr) prefetch_frame_around(*next_);
    return first;
  }
  // Prefetches the memory around `op`, which is part of a coroutine frame: the coroutines that ran
  // since it was suspended may have evicted that frame from the cache.
  static void prefetch_frame_around(operation& op) noexcept {
    const auto* const line = reinterpret_cast<const std::byte*>(&op);
    prefetch_to_write(line - cache_line_size);
    prefetch_to_write(line);
    prefetch_to_write(line + cache_line_size);
  }

  operation* next_ = nullptr;
  atomic<std::size_t> pending_count_{0};
};

}  // namespace gyre::detail
