// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/semaphore.hpp>

namespace gyre {

bool semaphore::enlist(waiter& arriving) noexcept { return state_.enlist(arriving); }
bool semaphore::withdraw(waiter& leaving) noexcept { return state_.withdraw(leaving); }

void semaphore::release_to_waiters(std::uint64_t permits) noexcept {
  state_.change([permits](word& now) { now += permits * one; });
}

}  // namespace gyre
