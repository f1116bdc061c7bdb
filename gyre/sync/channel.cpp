// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/channel.hpp>

namespace gyre::detail {

void channel_base::close() noexcept {
  intrusive_queue<operation> ended;
  {
    const std::lock_guard hold(lock_);
    if (std::exchange(closed_, true)) return;
    receivers_.claim_all(ended, true);
    senders_.claim_all(ended, true);
  }
  wake_all(ended);
}

}  // namespace gyre::detail
