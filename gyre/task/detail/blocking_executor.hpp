// SPDX-License-Identifier: Apache-2.0
// blocking_executor: the executor of a thread that waits for coroutines in ordinary code.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/detail/mpsc_queue.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/nested_run.hpp>
#include <gyre/task/executor.hpp>

#include <cstdint>
#include <string>

namespace gyre::detail {

/// Lets one thread sleep until another thread changes the lower half of a word (futex(2)).
struct word_futex {
  static void wait(const atomic<std::uintptr_t>& word, std::uintptr_t expected) noexcept;
  /// Wakes the thread that sleeps on `word`, if any. `word` need not exist any more.
  static void wake_one(const atomic<std::uintptr_t>* word) noexcept;
};

/// A queue of operations for one thread, its owner, which sleeps while the queue is empty. The
/// owner may destroy the queue once it has taken the last operation: push() does not touch the
/// queue after the owner can take the pushed operation.
template <class Futex = word_futex>
class basic_blocking_queue {
 public:
  /// May be called from any thread. Makes a system call only if the owner sleeps.
  void push(operation& op) noexcept {
    const atomic<std::uintptr_t>* const word = &queue_.word();
    // The owner may destroy the queue as soon as the push has succeeded.
    if (queue_.push(op)) Futex::wake_one(word);
  }

  /// Takes all operations, the oldest first. Called by the owner.
  intrusive_queue<operation> take() noexcept { return queue_.take(); }

  /// Returns whether the queue is empty. Called by the owner.
  bool empty() const noexcept { return queue_.empty(); }

  /// Blocks until the queue holds an operation. Called by the owner.
  void sleep() noexcept {
    if (!queue_.go_idle()) return;
    while (queue_.is_idle()) Futex::wait(queue_.word(), mpsc_queue::idle);
  }

 private:
  mpsc_queue queue_;
};

/// Throws std::system_error (std::errc::resource_deadlock_would_occur) with `report` in its
/// message.
[[noreturn, gnu::cold]] void throw_deadlock(const std::string& report);

/// The executor of sync_wait(), for coroutines that are resumed while it waits.
class blocking_executor final : public executor {
 public:
  blocking_executor() noexcept;
  ~blocking_executor();

  void post(operation& op) noexcept override { queue_.push(op); }
  bool running_here() const noexcept override;
  bool runs_only_here() const noexcept override;
  /// Returns whether the calling thread is in a sync_wait().
  static bool blocks_this_thread() noexcept;

  /// Ends the executor's run on its thread. Operations that are posted later are accepted, but
  /// never run.
  void retire() noexcept;

  /// Returns whether every posted operation was taken by run_until().
  bool is_idle() const noexcept { return queue_.empty(); }

  /// Runs operations until one of them sets `is_done`. In builds that check for deadlocks, returns
  /// false instead of sleeping if the program has no other thread.
  bool run_until(const bool& is_done);

 private:
  basic_blocking_queue<> queue_;
  blocking_executor* outer_;  // the executor of the enclosing sync_wait() on this thread, or null
  nested_run run_;
};

}  // namespace gyre::detail
