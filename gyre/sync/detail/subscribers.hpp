// SPDX-License-Identifier: Apache-2.0
// subscribers: the waiters of a broadcast or a watch, which are woken all at once.
#pragma once

#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <cassert>
#include <mutex>
#include <optional>
#include <system_error>

namespace gyre::detail {

/// The lock and the waiters of an object that many wait for, and all see. Close once: further calls
/// do nothing.
class subscribers {
 public:
  subscribers() = default;
  subscribers(const subscribers&) = delete;
  subscribers& operator=(const subscribers&) = delete;

  spin_lock& lock() noexcept { return lock_; }
  void enlist(select_node& node) noexcept { waiting_.push_back(node); }
  [[nodiscard]] bool closed() const noexcept { return closed_; }  // with the lock
  void close() noexcept;

 protected:
  ~subscribers() { assert(waiting_.empty() && "destroyed while waited for"); }

  mutable spin_lock lock_;
  bool closed_ = false;
  select_queue waiting_;
};

/// The case of a receiver's next value. `Receiver` has a pointer core_ to subscribers and, with
/// their lock held, ready() and next(). No other thread moves the receiver on, so that whatever
/// made it ready is still there when take() comes, or something newer.
template <class Receiver>
class receiver_case : public select_node {
 public:
  using result = std::optional<typename Receiver::received>;
  explicit receiver_case(Receiver& receiver) noexcept : receiver_(&receiver) {}

  spin_lock& lock() noexcept { return receiver_->core_->lock(); }
  bool attempt(select_wait*&) noexcept { return receiver_->ready(); }
  void enlist() noexcept { receiver_->core_->enlist(*this); }
  static std::error_code error() noexcept { return {}; }
  result take() {
    const std::lock_guard hold(lock());
    return receiver_->next();
  }

 private:
  Receiver* receiver_;
};

}  // namespace gyre::detail
