// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/mutex.hpp>

namespace gyre {

using detail::waiter;

bool mutex::enlist(waiter& arriving) noexcept { return state_.enlist(arriving); }
bool mutex::withdraw(waiter& leaving) noexcept { return state_.withdraw(leaving); }
void mutex::enqueue(intrusive_list<waiter>& waiters) noexcept { state_.append(waiters); }

void mutex::hand_over() noexcept {
  state_.change([](word& now) {
    assert((now & held) != 0 && "unlocked a gyre::mutex that is not locked");
    now &= ~held;
  });
}

}  // namespace gyre
