// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/semaphore.hpp>

namespace gyre {

template class detail::waiting_line<semaphore, detail::semaphore_waiter>;

void semaphore::release_to_waiters(std::uint64_t permits) noexcept {
  change([permits](word& now) { now += permits * one; });
}

}  // namespace gyre
