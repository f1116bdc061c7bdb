// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/once.hpp>

namespace gyre {

using detail::locked_state;
using detail::waiter;
using detail::woken_waiters;

// Need not wait: it is done, or this one's turn.
bool once_flag::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if ((state.now & attempted) == 0) {
    if (state.now == 0) state.now = attempted;
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  arriving.join(waiting_);
  return true;
}

bool once_flag::withdraw(waiter& leaving) noexcept {
  locked_state state(state_);
  return leaving.withdraw();
}

void once_flag::leave(bool success) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  if (success) {
    state.now = succeeded;
    while (!waiting_.empty()) ready.complete(waiting_.front());
  } else if (waiting_.empty()) {
    state.now = 0;
  } else {
    ready.complete(waiting_.front());  // still attempted, by that one
  }
}

}  // namespace gyre
