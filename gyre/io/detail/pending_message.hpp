// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gyre/base/atomic.hpp>

namespace gyre::io::detail {

/// Lets one of many who want to send the same message send it: as long as it has not been taken,
/// another one would tell nothing more, and only pile up where nobody looks.
///
/// Whoever takes the message sees what all those did before who relied on it.
class pending_message {
 public:
  /// Whether the caller has to send it. Any thread; async-signal-safe.
  bool begin() noexcept {
    // release pairs with the acquire in taken(), also where another exchange comes between them.
    return !pending_.exchange(true, std::memory_order_release);
  }
  /// It could not be sent: the caller must tell of it in another way. Others may have relied on it,
  /// and what they did is seen by whoever learns of it from the caller.
  void failed() noexcept { taken(); }
  /// It has come, or never will. Before looking for what it was to tell.
  void taken() noexcept { pending_.exchange(false, std::memory_order_acquire); }

 private:
  gyre::detail::atomic<bool> pending_{false};
};

}  // namespace gyre::io::detail
