// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/latch.hpp>

namespace gyre {

using detail::locked_state;
using detail::waiter;
using detail::woken_waiters;

void latch::count_down(std::uint64_t arrived) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  assert(state.now / one >= arrived && "more arrived at a gyre::latch than were expected");
  state.now -= arrived * one;
  if (state.now != 0) return;
  while (!waiting_.empty()) ready.complete(waiting_.front());
}

bool latch::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if (state.now == 0) {
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  arriving.join(waiting_);
  return true;
}

bool latch::withdraw(waiter& leaving) noexcept {
  locked_state state(state_);
  return leaving.withdraw();
}

}  // namespace gyre
