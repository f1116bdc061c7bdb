// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/mutex.hpp>

namespace gyre {

using detail::locked_state;
using detail::waiter;
using detail::woken_waiters;

bool mutex::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if ((state.now & held) == 0) {
    state.now = held;
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  state.now |= awaited;
  arriving.join(waiting_);
  return true;
}

bool mutex::withdraw(waiter& leaving) noexcept {
  locked_state state(state_);
  const bool waited = leaving.withdraw();
  if (waiting_.empty()) state.now &= ~awaited;
  return waited;
}

void mutex::hand_over() noexcept {
  woken_waiters next;
  locked_state state(state_);
  assert((state.now & held) != 0 && "unlocked a gyre::mutex that is not locked");
  if (waiting_.empty()) {
    state.now = 0;
    return;
  }
  next.complete(waiting_.front());
  if (waiting_.empty()) state.now &= ~awaited;
}

void mutex::enqueue(intrusive_list<waiter>& line) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  while (waiter* next = line.pop_front()) {
    if ((state.now & held) == 0) {
      state.now = held;
      ready.complete(*next);
    } else {
      state.now |= awaited;
      next->join(waiting_);
    }
  }
}

}  // namespace gyre
