// SPDX-License-Identifier: Apache-2.0
// blocking_executor: the executor of a thread that waits for coroutines in ordinary code.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/executor.hpp>

#include <cstdint>
#include <string>

namespace gyre::detail {

/// Lets one thread sleep on the lower half of a word until another changes it (futex(2)).
struct word_futex {
  static void wait(const atomic<std::uintptr_t>& word, std::uintptr_t expected) noexcept;
  /// The word need not exist any more.
  static void wake_one(const atomic<std::uintptr_t>* word) noexcept;
};

/// A queue of operations for one thread, its owner, which sleeps while the queue is empty. May be
/// destroyed as soon as the last operation is taken: a push does not touch the queue after that.
template <class Futex = word_futex>
class basic_blocking_queue {
 public:
  /// Any thread. Makes a system call only if the owner sleeps.
  void push(operation& op) noexcept {
    // release: pairs with the acquire in take(), for the operation's contents.
    std::uintptr_t seen = newest_.load(std::memory_order_relaxed);
    do {
      op.next = seen == asleep ? nullptr : to_operation(seen);
    } while (!newest_.compare_exchange_weak(seen, to_word(op), std::memory_order_release,
                                            std::memory_order_relaxed));
    // From here on the queue may be gone.
    if (seen == asleep) Futex::wake_one(&newest_);
  }

  /// All operations there are, the oldest first. The owner.
  intrusive_queue<operation> take() noexcept {
    intrusive_queue<operation> taken;
    // relaxed: a hint; acquire follows.
    if (newest_.load(std::memory_order_relaxed) == 0) return taken;
    // acquire: pairs with the release in push(); each push continues the release sequence.
    operation* each = to_operation(newest_.exchange(0, std::memory_order_acquire));
    while (each != nullptr) {
      operation& op = *each;
      each = static_cast<operation*>(op.next);
      op.next = nullptr;
      taken.push_front(op);
    }
    return taken;
  }

  /// Whether no operation waits. The owner.
  bool empty() const noexcept {
    return newest_.load(std::memory_order_relaxed) == 0;  // relaxed: only a look
  }

  /// Waits until there is an operation. The owner.
  void sleep() noexcept {
    std::uintptr_t seen = 0;
    // relaxed, all: take() reads with acquire what was pushed.
    if (!newest_.compare_exchange_strong(seen, asleep, std::memory_order_relaxed,
                                         std::memory_order_relaxed)) {
      return;
    }
    while (newest_.load(std::memory_order_relaxed) == asleep) Futex::wait(newest_, asleep);
  }

 private:
  // No operation has this address, nor its lower half.
  static constexpr std::uintptr_t asleep = 1;
  static operation* to_operation(std::uintptr_t word) noexcept {
    return reinterpret_cast<operation*>(word);
  }
  static std::uintptr_t to_word(operation& op) noexcept {
    return reinterpret_cast<std::uintptr_t>(&op);
  }

  atomic<std::uintptr_t> newest_{0};
};

/// Throws std::system_error (std::errc::resource_deadlock_would_occur).
[[noreturn, gnu::cold]] void throw_deadlock(const std::string& report);

/// The executor of sync_wait(), for coroutines that are resumed while it waits.
class blocking_executor final : public executor {
 public:
  blocking_executor() noexcept;
  ~blocking_executor();

  void post(operation& op) noexcept override { queue_.push(op); }
  bool running_here() const noexcept override;
  bool runs_only_here() const noexcept override { return running_here(); }
  /// Whether the calling thread is in a run_until() now.
  static bool blocks_this_thread() noexcept;

  /// Ends the executor, but keeps accepting posts, which never run.
  void retire() noexcept;

  /// Whether every posted operation has run.
  bool is_idle() const noexcept { return queue_.empty(); }

  /// Runs operations until one of them sets `done`. In builds that check for deadlocks, returns
  /// false instead of sleeping if the program has no other thread.
  bool run_until(const bool& done);

 private:
  basic_blocking_queue<> queue_;
  blocking_executor* outer_;  // of a sync_wait() around this one on the same thread
};

}  // namespace gyre::detail
