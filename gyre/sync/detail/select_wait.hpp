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
// | state     | publish() | claim(case) | decide(case)              |
// |-----------|-----------|-------------|---------------------------|
// | preparing | open      | -           | decided; nothing to wake  |
// | open      | -         | decided     | decided; the caller wakes |
// | decided   | false     | false       | false                     |
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <optional>

namespace gyre::detail {

/// A coroutine's wait, and the case that ended it. Does not move. Exactly one claim() or decide()
/// succeeds, and its caller owes it wake() if the coroutine waits already.
class select_wait : public resumption {
 public:
  /// The index of the case that completed, or `cancelled`.
  using index = std::uint32_t;
  static constexpr index cancelled = ~index{0};

  template <class Promise>
  explicit select_wait(std::coroutine_handle<Promise> awaiting) noexcept
      : context_(&context_of(awaiting)) {
    waiting = awaiting;
  }

  /// Lets `stop` cancel the wait, from now on.
  void cancel_on(inplace_stop_token stop) noexcept {
    if (stop.stop_possible()) on_stop_.emplace(stop, cancel{this});
  }

  /// Makes the wait open to claims; with all locks held, and all nodes queued. False if it was
  /// decided before; the coroutine is then not resumed.
  bool publish() noexcept {
    index expected = preparing;
    // release: pairs with the acquire in decide(), whose coroutine reads the nodes. relaxed on
    // failure: what was decided is a number.
    return decided_.compare_exchange_strong(expected, open, std::memory_order_release,
                                            std::memory_order_relaxed);
  }

  /// Ends the wait with the case `chosen`, unless it has ended. For a caller that found its node in
  /// a queue, with that primitive's lock held, under which the wait was published.
  bool claim(index chosen) noexcept {
    index expected = open;
    // relaxed: publish() came before by the lock; the executor's post orders the rest.
    return decided_.compare_exchange_strong(expected, chosen, std::memory_order_relaxed,
                                            std::memory_order_relaxed);
  }

  /// Ends the wait with the case `chosen`, unless it has ended; for a stop or a timer. True: the
  /// coroutine waits already, and the caller owes it wake().
  [[nodiscard]] bool decide(index chosen) noexcept {
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
  bool abandon() noexcept { return claim(cancelled); }

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

  struct cancel {
    select_wait* self;
    void operator()() const noexcept {
      if (self->decide(cancelled)) self->wake();
    }
  };

  const task_context* context_;
  atomic<index> decided_{preparing};
  std::optional<inplace_stop_callback<cancel>> on_stop_;
};

/// A wait's node in a primitive's list. Belongs to the primitive's lock while it is linked.
struct select_node : intrusive_list_node {
  select_wait* wait;
  select_wait::index index;
  bool closed = false;     // the wait ended because the primitive was closed
  bool ends_turn = false;  // it completed at once, as many before it: the coroutine gives way
};

/// The nodes of a primitive, the oldest first; all members with its lock held. Waits that ended
/// elsewhere may be among them.
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
