// SPDX-License-Identifier: Apache-2.0
// pending_message: lets one of many threads send a message while the last one has not been taken.
#pragma once

#include <gyre/base/atomic.hpp>

namespace gyre::io::detail {

/// A second message would tell nothing more, and messages would pile up where nobody takes them.
///
/// The thread that takes the message sees all that others did before their begin().
class pending_message {
 public:
  /// Whether the caller has to send it. Any thread; async-signal-safe.
  bool begin() noexcept {
    // release pairs with the acquire in taken(), also where another exchange comes between them.
    return !pending_.exchange(true, std::memory_order_release);
  }
  /// The message could not be sent: the caller must wake the receiver in another way, which then
  /// sees the work of all that relied on the message.
  void failed() noexcept { taken(); }
  /// The message has come, or never will. Call it before looking for the senders' work.
  void taken() noexcept { pending_.exchange(false, std::memory_order_acquire); }

 private:
  gyre::detail::atomic<bool> pending_{false};
};

}  // namespace gyre::io::detail
