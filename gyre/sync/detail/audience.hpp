// SPDX-License-Identifier: Apache-2.0
// What broadcast and watch have in common: many wait, and all of them are woken.
#pragma once

#include <gyre/sync/detail/select_wait.hpp>
#include <gyre/sync/detail/spin_lock.hpp>

#include <cassert>

namespace gyre::detail {

/// The lock, and the waiters, of something that many wait for and all see.
class audience {
 public:
  audience() = default;
  audience(const audience&) = delete;
  audience& operator=(const audience&) = delete;

  spin_lock& lock() noexcept { return lock_; }
  void enlist(select_node& node) noexcept { waiting_.push_back(node); }
  [[nodiscard]] bool closed() const noexcept { return closed_; }  // with the lock
  void close() noexcept;

 protected:
  ~audience() { assert(waiting_.empty() && "destroyed while waited for"); }

  mutable spin_lock lock_;
  bool closed_ = false;
  select_queue waiting_;
};

}  // namespace gyre::detail
