// SPDX-License-Identifier: Apache-2.0
// subscribers: the lock and the waiting receivers of a channel, a broadcast, a watch or a oneshot.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/intrusive_queue.hpp>
#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <cassert>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

namespace gyre::detail {

/// The lock, the closed flag and the waiting receivers of an object that is closed once.
class subscribers {
 public:
  spin_lock& mutex() noexcept { return lock_; }
  bool closed() const noexcept {
    const std::lock_guard hold(lock_);
    return is_closed();
  }
  /// Ends the waits of the receivers and the waits in `senders`. Further calls do nothing.
  void close(select_queue* senders = nullptr) noexcept {
    intrusive_queue<operation> ended_waits;
    {
      const std::lock_guard hold(lock_);
      if (is_closed()) return;
      set_closed();
      receivers_.claim_all(ended_waits, true);
      if (senders != nullptr) senders->claim_all(ended_waits, true);
    }
    wake_all(ended_waits);
  }

  // The functions below, up to spend_turn_budget(), are called with the lock held.

  void enlist(select_node& receiver) noexcept { receivers_.push_back(receiver); }
  [[nodiscard]] bool is_closed() const noexcept {
    return is_closed_.load(std::memory_order_relaxed);  // relaxed: the lock orders
  }
  /// Counts a case that completed at once. Returns whether its coroutine must yield to others: true
  /// once in 256 calls (a cooperative budget), because a coroutine whose operations always complete
  /// at once would hold its executor for ever. The count is per primitive, whose memory is in the
  /// cache.
  /// Source: Lerche, "Reducing tail latencies with automatic cooperative task yielding", 2020.
  [[nodiscard]] bool spend_turn_budget() noexcept { return ++completed_at_once_ == 0; }

 protected:
  ~subscribers() { assert(receivers_.empty() && "destroyed while waited for"); }

  // Called with the lock held.
  void set_closed() noexcept {
    // release: pairs with the acquire in was_closed(), which then sees the earlier writes of the
    // closing thread.
    is_closed_.store(true, std::memory_order_release);
  }
  /// Like is_closed(), but without the lock, which the thread that closed may still hold. acquire:
  /// pairs with the release in set_closed().
  [[nodiscard]] bool was_closed() const noexcept {
    return is_closed_.load(std::memory_order_acquire);
  }

  mutable spin_lock lock_;
  atomic<bool> is_closed_{false};
  std::uint8_t completed_at_once_ = 0;
  select_queue receivers_;
};

/// The case of select() that takes a receiver's next value. `Receiver` has a pointer core_ to
/// subscribers and, with their lock held, ready() and next(). Only the waiting coroutine advances
/// the receiver, so that a receiver that is ready stays ready until take(). `Receiver` may have
/// must_wait(), as cases do, and takes_without_lock, if no other thread uses the subscribers once
/// the receiver is ready.
template <class Receiver>
class receiver_case : public select_node {
 public:
  using result = decltype(std::declval<Receiver&>().next());
  explicit receiver_case(Receiver& receiver) noexcept : receiver_(&receiver) {}

  spin_lock& mutex() noexcept { return receiver_->core_->mutex(); }
  bool attempt(select_wait*&) noexcept {
    if (!receiver_->ready()) return false;
    this->ends_turn = receiver_->core_->spend_turn_budget();
    return true;
  }
  bool must_wait() const noexcept
    requires requires(const Receiver& object) { object.must_wait(); }
  {
    return receiver_->must_wait();
  }
  void enlist() noexcept { receiver_->core_->enlist(*this); }
  static std::error_code error() noexcept { return {}; }
  result take() {
    if constexpr (requires { Receiver::takes_without_lock; }) {
      return receiver_->next();
    } else {
      const std::lock_guard hold(mutex());
      return receiver_->next();
    }
  }

 private:
  Receiver* receiver_;
};

}  // namespace gyre::detail
