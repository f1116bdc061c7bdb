// SPDX-License-Identifier: Apache-2.0
// operation_chain: operations that were posted to a loop at once, and run in the place of one task.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>
#include <gyre/base/operation.hpp>
#include <gyre/exec/inbox/inbox.hpp>

#include <cstddef>
#include <utility>

namespace gyre::detail {

/// The chain that a loop runs now. The inbox has one task for each chain, which begins it; while
/// operations are left over by a batch, the loop takes no other task from the inbox, so the order
/// is that of the posts.
///
/// Thread-safety: add_pending(), subtract_pending() and pending() from any thread; the rest belongs
/// to the loop's thread.
class operation_chain {
 public:
  /// Counts operations that wait in chains, but for one of each, which the inbox counts as a task.
  void add_pending(std::size_t operations) noexcept {
    pending_.fetch_add(operations, std::memory_order_relaxed);  // relaxed: orders nothing
  }
  void subtract_pending(std::size_t operations) noexcept {
    pending_.fetch_sub(operations, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t pending() const noexcept {
    return pending_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] bool empty() const noexcept { return next_ == nullptr; }
  /// As a task of the inbox: runs `first` and those linked after it, as far as the batch has room.
  /// The inbox counts its tasks when it returns, so the batch may become twice as long.
  void begin(operation& first, inbox::batch& batch) {
    next_ = &first;
    pop().execute();
    run(batch);
  }
  /// Runs operations of the chain while the batch has room, and ends the batch if that is not
  /// enough. After an exception of one of them the next call continues after it.
  void run(inbox::batch& batch) {
    struct count_at_exit {
      operation_chain& chain;
      std::size_t ran = 0;
      ~count_at_exit() { chain.subtract_pending(ran); }
    } done{*this};
    while (next_ != nullptr && batch.more()) {
      operation& next = pop();
      batch.count(1);
      ++done.ran;
      next.execute();
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
  // The coroutine was last used before others that woke with it.
  static void prefetch_frame_around(operation& op) noexcept {
    const auto* const line = reinterpret_cast<const std::byte*>(&op);
    prefetch_to_write(line - cache_line_size);
    prefetch_to_write(line);
    prefetch_to_write(line + cache_line_size);
  }

  operation* next_ = nullptr;
  atomic<std::size_t> pending_{0};
};

}  // namespace gyre::detail
