// SPDX-License-Identifier: Apache-2.0
// select_wait: the wait of a coroutine for the first of several cases, exactly one of which
// completes. select() waits so, and every operation on a channel, with a single case.
//
// After Go's runtime (src/runtime/select.go): to wait, a coroutine takes the locks of all its
// primitives at once, in the order of their addresses; tries each case; and, if none can complete,
// puts a node into each primitive's queue before it unlocks. From then on it is passive: a claimant
// takes one of its nodes out, under that primitive's lock, and loses to an earlier claimant. Two
// selects that could serve each other cannot both be claimants, as one that tries has no nodes yet.
//
// A wait for a single case is decided under the lock of that case alone, also by a stop; so it does
// without the exchanges of the others.
//
// | state     | publish() | claim(case) | decide(case)              |
// |-----------|-----------|-------------|---------------------------|
// | preparing | open      | -           | decided; nothing to wake  |
// | open      | -         | decided     | decided; the caller wakes |
// | decided   | false     | false       | false                     |
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/stop_callback_slot.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <mutex>

namespace gyre::detail {

/// A coroutine's wait, and the case that ended it. Does not move. Exactly one claim() or decide()
/// succeeds, and its caller owes it wake() if the coroutine waits already.
class select_wait : public resumption, stop_callback_slot<select_wait> {
 public:
  /// The index of the case that completed, or `cancelled`.
  using index = std::uint32_t;
  static constexpr index cancelled = ~index{0};

  /// `only_lock`: the lock of a single case, see above; null if there are several cases.
  template <class Promise>
  explicit select_wait(std::coroutine_handle<Promise> awaiting,
                       spin_lock* only_lock = nullptr) noexcept
      : context_(&context_of(awaiting)), only_lock_(only_lock) {
    waiting = awaiting;
  }
  select_wait(const select_wait&) = delete;
  ~select_wait() {
    if (has_callback_) remove_stop_callback();
  }

  /// Lets `stop` cancel the wait, from now on.
  void cancel_on(inplace_stop_token stop) noexcept {
    has_callback_ = stop.stop_possible();
    if (has_callback_) add_stop_callback(stop);
  }

  /// Makes the wait open to claims; with all locks held, and all nodes queued. False if it was
  /// decided before; the coroutine is then not resumed.
  bool publish() noexcept {
    // release: pairs with the acquire in decide(), whose coroutine reads the nodes. relaxed on
    // failure: what was decided is a number.
    return change(preparing, open, std::memory_order_release);
  }

  /// Ends the wait with the case `chosen`, unless it has ended. For a caller that found its node in
  /// a queue, with that primitive's lock held, under which the wait was published.
  bool claim(index chosen) noexcept {
    // relaxed: publish() came before by the lock; the executor's post orders the rest.
    return change(open, chosen, std::memory_order_relaxed);
  }

  /// Ends the wait with the case `chosen`, unless it has ended; for a stop or a timer. True: the
  /// coroutine waits already, and the caller owes it wake().
  [[nodiscard]] bool decide(index chosen) noexcept {
    if (only_lock_ != nullptr) {
      const std::lock_guard hold(*only_lock_);
      return !change(preparing, chosen, std::memory_order_relaxed) && claim(chosen);
    }
    // relaxed: the exchanges below order.
    index seen = decided_.load(std::memory_order_relaxed);
    while (seen == preparing || seen == open) {
      // acquire: pairs with the release in publish().
      if (decided_.compare_exchange_weak(seen, chosen, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
        return seen == open;
      }
    }
    return false;
  }

  /// Resumes the coroutine on its executor. Once; the wait may be gone afterwards.
  void wake() noexcept { where().post(*this); }

  /// Ends the wait with the case `chosen`, which has completed at once, and resumes the coroutine
  /// in its executor's queue all the same. False if a stop has ended the wait before, or the
  /// executor has no queue; the coroutine then goes on.
  [[nodiscard]] bool give_way(index chosen) noexcept {
    if (&where() == &inline_executor()) return false;
    static_cast<void>(decide(chosen));
    if (outcome() != chosen) return false;
    wake();
    return true;
  }

  /// Prevents claims, for the destructor of a waiting coroutine. False if it was claimed before.
  bool abandon() noexcept {
    if (only_lock_ == nullptr) return claim(cancelled);
    const std::lock_guard hold(*only_lock_);
    return claim(cancelled);
  }

  /// The result, for the woken coroutine.
  [[nodiscard]] index outcome() const noexcept {
    // relaxed: the coroutine was posted after the decision, or has decided itself.
    return decided_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] executor& where() const noexcept { return *context_->where; }
  [[nodiscard]] const task_context& context() const noexcept { return *context_; }

 private:
  static constexpr index preparing = cancelled - 1;
  static constexpr index open = cancelled - 2;

  friend stop_callback_slot<select_wait>;

  bool change(index expected, index desired, std::memory_order order) noexcept {
    if (only_lock_ == nullptr) {
      return decided_.compare_exchange_strong(expected, desired, order, std::memory_order_relaxed);
    }
    // relaxed: the lock, which is held, orders.
    if (decided_.load(std::memory_order_relaxed) != expected) return false;
    decided_.store(desired, std::memory_order_relaxed);
    return true;
  }

  void stop() noexcept {
    if (decide(cancelled)) wake();
  }

  const task_context* context_;
  atomic<index> decided_{preparing};
  bool has_callback_ = false;
  spin_lock* const only_lock_;
};

/// A wait's node in a primitive's list. Belongs to the primitive's lock while it is linked.
struct select_node : intrusive_list_node {
  select_wait* wait;
  select_wait::index index;
  bool closed = false;     // the wait ended because the primitive was closed
  bool ends_turn = false;  // it completed at once, as many before it: the coroutine gives way
};

/// The queue of a primitive's nodes, the oldest first. It may hold nodes of waits that another
/// primitive, a stop or a timer has ended.
///
/// Thread-safety: every member is called with the primitive's lock held.
class select_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
  void push_back(select_node& node) noexcept { nodes_.push_back(node); }

  /// Claims the oldest wait, which then leaves the queue; null if there is none.
  select_node* claim_first() noexcept {
    while (select_node* const oldest = nodes_.pop_front()) {
      if (oldest->wait->claim(oldest->index)) return oldest;
    }
    return nullptr;
  }
  /// Claims all waits; wake_all() must follow, without the lock.
  void claim_all(intrusive_queue<operation>& claimed, bool closed) noexcept {
    while (select_node* const node = claim_first()) {
      node->closed = closed;
      claimed.push_back(*node->wait);
    }
  }

 private:
  intrusive_list<select_node> nodes_;
};

/// Resumes the coroutines of claim_all().
inline void wake_all(intrusive_queue<operation>& claimed) noexcept {
  while (operation* const next = claimed.pop_front()) static_cast<select_wait*>(next)->wake();
}

}  // namespace gyre::detail
