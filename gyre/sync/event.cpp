// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/event.hpp>

namespace gyre {

using detail::locked_state;
using detail::waiter;
using detail::woken_waiters;

void manual_reset_event::set() noexcept {
  woken_waiters ready;
  locked_state state(state_);
  state.now = flag;
  while (!waiting_.empty()) ready.complete(waiting_.front());
}

void manual_reset_event::reset() noexcept {
  locked_state state(state_);
  state.now = 0;
}

bool manual_reset_event::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if (state.now == flag) {
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  arriving.join(waiting_);
  return true;
}

bool manual_reset_event::withdraw(waiter& leaving) noexcept {
  locked_state state(state_);
  return leaving.withdraw();
}

void auto_reset_event::set() noexcept {
  woken_waiters ready;
  locked_state state(state_);
  if (waiting_.empty()) {
    state.now = flag;
  } else {
    ready.complete(waiting_.front());
  }
}

void auto_reset_event::reset() noexcept {
  locked_state state(state_);
  state.now = 0;
}

bool auto_reset_event::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if (state.now == flag) {
    state.now = 0;
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  arriving.join(waiting_);
  return true;
}

bool auto_reset_event::withdraw(waiter& leaving) noexcept {
  locked_state state(state_);
  return leaving.withdraw();
}

}  // namespace gyre
