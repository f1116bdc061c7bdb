// SPDX-License-Identifier: Apache-2.0
// How a coroutine waits at several places for the first of several things, of which exactly one
// happens to it: what select() stands on, and every wait at a channel, where the number is one.
//
// After Go's runtime (src/runtime/select.go): to wait, a coroutine takes the locks of all places at
// once, in the order of their addresses; looks whether one of the things can happen now; and, if
// none can, leaves a node at each place before it gives up the locks. From then on it only suffers:
// whoever takes one of its nodes out, under that place's lock, must claim the wait, and loses to
// whoever claimed it before. Two selects that could serve each other cannot both be claimants,
// because one that looks has no nodes yet.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/stop_token.hpp>

#include <coroutine>
#include <cstdint>
#include <optional>

namespace gyre::detail {

/// A coroutine's wait, and what ended it. Does not move. Exactly one of those who claim or decide
/// it succeeds, and owes it wake() if it waits already.
class select_wait : public resumption {
 public:
  /// The index of the case that happened, or `cancelled`.
  using index = std::uint32_t;
  static constexpr index cancelled = ~index{0};

  template <class Promise>
  explicit select_wait(std::coroutine_handle<Promise> awaiting) noexcept
      : context_(&context_of(awaiting)) {
    waiting = awaiting;
  }
  select_wait(const select_wait&) = delete;
  select_wait& operator=(const select_wait&) = delete;

  /// Lets `stop` cancel the wait, from now on.
  void cancel_on(inplace_stop_token stop) noexcept {
    if (stop.stop_possible()) on_stop_.emplace(stop, cancel{this});
  }

  /// With the locks of all places held, and nodes at all of them: lets claimants loose. False if it
  /// was decided before; then nobody will resume the coroutine.
  bool publish() noexcept {
    index expected = preparing;
    // release: pairs with the acquire in decide(), whose coroutine reads the nodes. relaxed on
    // failure: what was decided is a number.
    return decided_.compare_exchange_strong(expected, open, std::memory_order_release,
                                            std::memory_order_relaxed);
  }

  /// For whoever found a node of this wait at a place, with the lock of that place held, under
  /// which the wait was published: makes it end with `what`, unless it has ended.
  bool claim(index what) noexcept {
    index expected = open;
    // relaxed: publish() came before through the lock, and the coroutine learns the rest through
    // the executor's post.
    return decided_.compare_exchange_strong(expected, what, std::memory_order_relaxed,
                                            std::memory_order_relaxed);
  }

  /// For what ends the wait from outside of all places, a stop or a timer: makes it end with
  /// `what`, unless it has ended. True: the coroutine waits already, and the caller owes it wake().
  [[nodiscard]] bool decide(index what) noexcept;

  /// Resumes the coroutine on its executor. Once; the wait may be gone afterwards.
  void wake() noexcept { where().post(*this); }

  /// For the destructor of a coroutine that waits: nobody will claim it any more. False if somebody
  /// did.
  bool abandon() noexcept { return claim(cancelled); }

  /// The result, for the woken coroutine.
  [[nodiscard]] index outcome() const noexcept {
    // relaxed: the coroutine was posted after the decision, or has decided itself.
    return decided_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] executor& where() const noexcept { return *context_->where; }
  [[nodiscard]] const task_context& context() const noexcept { return *context_; }

 private:
  static constexpr index preparing = cancelled - 1;  // has nodes nowhere yet
  static constexpr index open = cancelled - 2;       // and now has them

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
  bool closed = false;  // the place was closed, which is what ended the wait
};

/// The nodes at a place, the oldest first; all members with the place's lock held. Among them may
/// be some of waits that ended elsewhere.
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
  /// Claims all waits. Their coroutines must be resumed with wake_all(), after the lock was given
  /// up.
  void claim_all(intrusive_queue<operation>& claimed, bool closed) noexcept;

 private:
  intrusive_list<select_node> nodes_;
};

/// Wakes what claim_all() claimed.
void wake_all(intrusive_queue<operation>& claimed) noexcept;

}  // namespace gyre::detail
