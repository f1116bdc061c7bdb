// SPDX-License-Identifier: Apache-2.0
// mpsc_queue: a lock-free queue of operations with many producers and one consumer, which can go
// idle.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/base/operation.hpp>

#include <cstdint>

namespace gyre::detail {

/// A stack of pushed operations, which the consumer takes as a whole (Treiber, 1986), with a mark
/// for an idle consumer in place of an empty stack. push() does not access the queue after it has
/// published its operation, so the consumer may then destroy the queue.
///
/// | word | push() | take() | go_idle() |
/// |---|---|---|---|
/// | empty | operations, false | empty | idle, true |
/// | operations | operations, false | empty | false |
/// | idle | operations, true | - | - |
class mpsc_queue {
 public:
  constexpr mpsc_queue() noexcept = default;
  mpsc_queue& operator=(mpsc_queue&&) = delete;

  /// Adds `op`. Any thread. Returns true if the consumer was idle: the caller, and no other, must
  /// then wake the consumer.
  [[nodiscard]] bool push(operation& op) noexcept {
    // relaxed: the value is only compared, and stored in the operation.
    std::uintptr_t expected = newest_.load(std::memory_order_relaxed);
    do {
      op.next = to_operation(expected);
      // release: pairs with the acquire in take(), which then sees the operation's contents.
    } while (!newest_.compare_exchange_weak(expected, to_word(op), std::memory_order_release,
                                            std::memory_order_relaxed));
    return expected == idle;
  }

  /// Takes all operations, the oldest first. Called by the consumer.
  intrusive_queue<operation> take() noexcept {
    intrusive_queue<operation> operations;
    // relaxed: the value is a hint; the exchange below acquires.
    if (newest_.load(std::memory_order_relaxed) == 0) return operations;
    // acquire: pairs with the release in push(); each push continues the release sequence.
    operation* next = to_operation(newest_.exchange(0, std::memory_order_acquire));
    while (next != nullptr) {
      operation& op = *next;
      next = static_cast<operation*>(op.next);
      op.next = nullptr;
      operations.push_front(op);
    }
    return operations;
  }

  /// Returns whether no operation waits. Called by the consumer.
  bool empty() const noexcept {
    return newest_.load(std::memory_order_relaxed) == 0;  // relaxed: the result is a hint
  }

  /// Marks the consumer idle, so that the next push() returns true. Returns false if an operation
  /// waits. Called by the consumer.
  [[nodiscard]] bool go_idle() noexcept {
    std::uintptr_t expected_word = 0;
    // relaxed, both: take() acquires. A consumer that then continues on another thread must order
    // its own data.
    return newest_.compare_exchange_strong(expected_word, idle, std::memory_order_relaxed,
                                           std::memory_order_relaxed);
  }
  /// Returns whether no operation was pushed since go_idle().
  bool is_idle() const noexcept {
    return newest_.load(std::memory_order_relaxed) == idle;  // relaxed: take() acquires
  }

  /// Returns the word whose value is `idle` until a push() wakes an idle consumer, for a futex.
  const atomic<std::uintptr_t>& word() const noexcept { return newest_; }
  /// The word of an idle consumer: never the address of an operation, nor the lower half of one,
  /// which is all that a futex compares.
  static constexpr std::uintptr_t idle = 1;

 private:
  static operation* to_operation(std::uintptr_t word) noexcept {
    return word == idle ? nullptr : reinterpret_cast<operation*>(word);
  }
  static std::uintptr_t to_word(operation& op) noexcept {
    return reinterpret_cast<std::uintptr_t>(&op);
  }

  atomic<std::uintptr_t> newest_{0};
};

}  // namespace gyre::detail
