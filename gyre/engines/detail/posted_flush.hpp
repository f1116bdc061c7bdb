// SPDX-License-Identifier: Apache-2.0
// posted_flush: one flush of a connection for all requests of a turn.
#pragma once

#include <gyre/exec/event_loop.hpp>

namespace gyre::engines::detail {

/// The loop runs its tasks in their order: all coroutines that are ready now write their requests
/// first, and one send takes them. No poll for I/O comes between.
///
/// Thread-safety: the loop's thread.
class posted_flush {
 public:
  /// Posts a task that calls `flush(owner)`, unless one is posted; without memory for a task the
  /// call comes at once. `owner` holds this object.
  template <class Owner, class Flush>
  void post(event_loop& loop, Owner& owner, Flush flush) noexcept {
    if (is_posted_) return;
    try {
      is_posted_ = loop.try_post([this, flush, weak_owner = owner.weak_from_this()] {
        const auto locked = weak_owner.lock();
        if (locked == nullptr) return;
        is_posted_ = false;
        flush(static_cast<Owner&>(*locked));
      });
    } catch (...) {
      is_posted_ = false;  // there is no memory for a task
    }
    if (!is_posted_) flush(owner);
  }

 private:
  bool is_posted_ = false;
};

}  // namespace gyre::engines::detail
