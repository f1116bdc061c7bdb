// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/detail/subscribers.hpp>

#include <gyre/base/intrusive_queue.hpp>

#include <utility>

namespace gyre::detail {

void subscribers::close() noexcept {
  intrusive_queue<operation> ended;
  {
    const std::lock_guard hold(lock_);
    if (std::exchange(closed_, true)) return;
    waiting_.claim_all(ended, true);
  }
  wake_all(ended);
}

}  // namespace gyre::detail
