// SPDX-License-Identifier: Apache-2.0
// select_wait: the wait of a coroutine for the first of several cases, exactly one of which
// completes. Used by select() and, with a single case, by every operation on a channel.
//
// After Go's runtime (src/runtime/select.go): to wait, a coroutine takes the locks of all its
// primitives at once, in the order of their addresses; tries each case; and, if none can complete,
// puts a node into each primitive's queue before it unlocks. From then on the coroutine is passive:
// a claimant takes one of its nodes out, under that primitive's lock, and fails if another claimant
// was earlier. Two selects that could serve each other cannot both be claimants, because a select
// that tries its cases has no nodes in queues.
//
// A wait_core decides which claimant succeeds. Its parties are the coroutine, until publish(), and
// a stop or a timer; the right to end the wait belongs to the first that claims it.
//
// | parties           | publish()  | claim(case)       | decide(case)              |
// |-------------------|------------|-------------------|---------------------------|
// | starter and right | suspended  | -                 | decided; nothing to wake  |
// | right             | -          | the caller wakes  | decided; the caller wakes |
// | starter           | continues  | -                 | false                     |
// | neither           | -          | false             | false                     |
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/sync/detail/spin_lock.hpp>
#include <gyre/task/context.hpp>
#include <gyre/task/detail/resumption.hpp>
#include <gyre/task/detail/wait_core.hpp>
#include <gyre/task/executor.hpp>

#include <atomic>
#include <coroutine>
#include <cstdint>

namespace gyre::detail {

/// The memory of a select_wait's parties: an atomic or, in a wait for a single case, a word that is
/// guarded by the lock of that case and needs no locked instruction.
class select_word {
 public:
  using parties = std::uint32_t;

  explicit select_word(parties initial_parties) noexcept : bits_(initial_parties) {}

  parties fetch_sub(parties ended_parties, std::memory_order order) noexcept {
    // relaxed: the lock orders; without a lock only locked_bit is read, which never changes.
    const parties old_parties = bits_.load(std::memory_order_relaxed);
    if ((old_parties & locked_bit) == 0) return bits_.fetch_sub(ended_parties, order);
    bits_.store(old_parties - ended_parties, std::memory_order_relaxed);
    return old_parties & ~locked_bit;
  }
  parties fetch_and(parties remaining_parties, std::memory_order order) noexcept {
    // relaxed: the lock orders; without a lock only locked_bit is read, which never changes.
    const parties old_parties = bits_.load(std::memory_order_relaxed);
    if ((old_parties & locked_bit) == 0) return bits_.fetch_and(remaining_parties, order);
    bits_.store(old_parties & (remaining_parties | locked_bit), std::memory_order_relaxed);
    return old_parties & ~locked_bit;
  }

  /// A bit of the initial word, which never changes: whether a lock protects the word.
  static constexpr parties locked_bit = 8;

 private:
  atomic<parties> bits_;
};

/// A coroutine's wait, and the case that ended the wait. Does not move. Exactly one claim() or
/// decide() succeeds, and its caller must call wake() if the coroutine waits already.
///
/// Thread-safety: see each member. In a wait for a single case, every member from publish() to
/// abandon() is called with the lock of that case held.
class select_wait : public resumption {
 public:
  /// The index of the case that completed, or `cancelled`.
  using index = std::uint8_t;
  static constexpr index cancelled = 0xff;

  template <class Promise>
  explicit select_wait(std::coroutine_handle<Promise> coroutine, bool has_single_case) noexcept
      : core_(starter | ender | right | (has_single_case ? select_word::locked_bit : 0)),
        context_(&context_of(coroutine)) {
    waiting = coroutine;
  }
  select_wait(const select_wait&) = delete;

  /// Opens the wait to claims. Called with all locks held and all nodes queued. Returns false if
  /// the wait was decided before: no other party will then resume the coroutine.
  [[nodiscard]] bool publish() noexcept { return !core_.leave(starter); }

  /// Ends the wait with the case `completed_case`, unless the wait has ended; returns whether it
  /// did. Called with the lock of the primitive in whose queue the caller found a node of the wait;
  /// the wait was published under that lock, so the coroutine is suspended.
  [[nodiscard]] bool claim(index completed_case) noexcept {
    if (!core_.claim(right)) return false;
    index_ = completed_case;
    return true;
  }

  /// Called by a stop or a timer: ends the wait with `completed_case`, unless the wait has ended
  /// before. Returns true if the coroutine waits already, so that the caller must call wake().
  [[nodiscard]] bool decide(index completed_case) noexcept {
    return claim(completed_case) && core_.leave(ender);
  }

  /// Called by the coroutine while no node is queued: ends the wait with the case `completed_case`.
  /// Returns true if the coroutine must suspend and call wake(), so that others run before it;
  /// false if a stop has ended the wait before, or the executor has no queue; the coroutine then
  /// continues.
  [[nodiscard]] bool give_way(index completed_case) noexcept {
    return &where() != &inline_executor() && claim(completed_case);
  }

  /// Prevents claims. Called when a waiting coroutine is destroyed. Returns false if the wait was
  /// claimed before.
  [[nodiscard]] bool abandon() noexcept { return core_.claim(right); }

  /// Resumes the coroutine through its executor. Called without locks. The wait may be gone
  /// afterwards.
  void wake() noexcept { where().post(*this); }

  /// Returns the index of the completed case, or `cancelled`. Called by the coroutine when it no
  /// longer waits.
  [[nodiscard]] index outcome() const noexcept { return index_; }
  [[nodiscard]] executor& where() const noexcept { return *context_->where; }
  [[nodiscard]] const task_context& context() const noexcept { return *context_; }

  /// Returns whether the awaiter has registered a stop callback. Called on the coroutine's thread.
  [[nodiscard]] bool has_callback() const noexcept { return has_callback_; }
  void note_callback() noexcept { has_callback_ = true; }

 private:
  using core = basic_wait_core<select_word::parties, select_word>;
  static constexpr core::parties starter = 1;
  static constexpr core::parties ender = 2;
  static constexpr core::parties right = 4;

  bool has_callback_ = false;
  index index_ = cancelled;
  core core_;
  const task_context* context_;
};

/// The node of a wait in a primitive's queue. Guarded by the primitive's lock while it is linked.
struct select_node : intrusive_list_node {
  select_wait* wait = nullptr;
  select_wait::index index = 0;
  bool closed = false;     // whether the wait ended because the primitive was closed
  bool ends_turn = false;  // whether a case that completed at once must yield first
};

/// The queue of a primitive's nodes, the oldest first. It may hold nodes of waits that another
/// primitive, a stop or a timer has ended.
///
/// Thread-safety: every member is called with the primitive's lock held.
class select_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
  void push_back(select_node& node) noexcept { nodes_.push_back(node); }

  /// Claims the oldest wait that has not ended, and returns its node, which leaves the queue;
  /// returns null if there is none.
  select_node* claim_first() noexcept {
    while (select_node* const oldest = nodes_.pop_front()) {
      if (oldest->wait->claim(oldest->index)) return oldest;
    }
    return nullptr;
  }
  /// Claims all waits and adds them to `waits`; wake_all() must follow, without the lock.
  void claim_all(intrusive_queue<operation>& waits, bool is_closed) noexcept {
    while (select_node* const node = claim_first()) {
      node->closed = is_closed;
      waits.push_back(*node->wait);
    }
  }

 private:
  intrusive_list<select_node> nodes_;
};

/// Resumes the coroutines of `waits`, which claim_all() has filled.
inline void wake_all(intrusive_queue<operation>& waits) noexcept {
  while (operation* const front = waits.pop_front()) static_cast<select_wait*>(front)->wake();
}

}  // namespace gyre::detail
