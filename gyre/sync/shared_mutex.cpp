// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/shared_mutex.hpp>

namespace gyre {

using detail::locked_state;
using detail::woken_waiters;

bool shared_mutex::enter(word& now, const waiter& next) noexcept {
  const word in_the_way = next.writes ? ~awaited : written;
  if ((now & in_the_way) != 0) return false;
  now += next.writes ? written : reader;
  return true;
}

// Completes the waiters at the head of the line that can lock now.
void shared_mutex::let_in(word& now, woken_waiters& ready) noexcept {
  while (!waiting_.empty() && enter(now, waiting_.front())) ready.complete(waiting_.front());
  if (waiting_.empty()) now &= ~awaited;
}

bool shared_mutex::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if (waiting_.empty() && enter(state.now, arriving)) {
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  state.now |= awaited;
  arriving.join(waiting_);
  return true;
}

bool shared_mutex::withdraw(waiter& leaving) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  const bool waited = leaving.withdraw();
  let_in(state.now, ready);
  return waited;
}

void shared_mutex::hand_over(word share) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  assert(state.now >= share && "unlocked a gyre::shared_mutex that is not locked");
  state.now -= share;
  let_in(state.now, ready);
}

}  // namespace gyre
