// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/shared_mutex.hpp>

namespace gyre {

template class detail::waiting_line<shared_mutex, detail::shared_mutex_waiter>;

void shared_mutex::hand_over(word share) noexcept {
  change([share](word& now) {
    assert(now >= share && "unlocked a gyre::shared_mutex that is not locked");
    now -= share;
  });
}

}  // namespace gyre
