// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/shared_mutex.hpp>

namespace gyre {

bool shared_mutex::enlist(waiter& arriving) noexcept { return state_.enlist(arriving); }
bool shared_mutex::withdraw(waiter& leaving) noexcept { return state_.withdraw(leaving); }

void shared_mutex::hand_over(word share) noexcept {
  state_.change([share](word& now) {
    assert(now >= share && "unlocked a gyre::shared_mutex that is not locked");
    now -= share;
  });
}

}  // namespace gyre
