// SPDX-License-Identifier: Apache-2.0
// posted_flush: one flush of a connection for all that a turn of its loop adds to the output.
#pragma once

#include <gyre/exec/event_loop.hpp>

#include <memory>
#include <utility>

namespace gyre::detail {

/// The loop runs its tasks in their order: all coroutines that are ready now add to the output
/// first, and one send takes everything. No poll for I/O comes between.
///
/// Thread-safety: the loop's thread.
class posted_flush {
 public:
  /// Posts a task that calls `flush`, unless one is posted. The task does nothing if `owner`, which
  /// holds this object, is gone. Returns false if there is no memory for a task: then the caller
  /// flushes.
  template <class Owner, class Flush>
  [[nodiscard]] bool post(event_loop& loop, std::weak_ptr<Owner> owner, Flush flush) noexcept {
    if (is_posted_) return true;
    try {
      is_posted_ = loop.try_post([this, flush, owner = std::move(owner)] {
        const auto shared_owner = owner.lock();
        if (shared_owner == nullptr) return;
        is_posted_ = false;
        flush();
      });
    } catch (...) {
      is_posted_ = false;
    }
    return is_posted_;
  }

 private:
  bool is_posted_ = false;
};

}  // namespace gyre::detail
