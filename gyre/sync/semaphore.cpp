// SPDX-License-Identifier: Apache-2.0
#include <gyre/sync/semaphore.hpp>

namespace gyre {

using detail::locked_state;
using detail::woken_waiters;

bool semaphore::take(word& now, const waiter& next) noexcept {
  if (now / one < next.wanted) return false;
  now -= next.wanted * one;
  return true;
}

// Completes the waiters at the head of the line that the count suffices for.
void semaphore::let_go(word& now, woken_waiters& ready) noexcept {
  while (!waiting_.empty() && take(now, waiting_.front())) ready.complete(waiting_.front());
  if (waiting_.empty()) now &= ~awaited;
}

bool semaphore::enlist(waiter& arriving) noexcept {
  locked_state state(state_);
  if (waiting_.empty() && take(state.now, arriving)) {
    arriving.complete();
    return false;
  }
  if (arriving.is_cancelled()) return false;
  state.now |= awaited;
  arriving.join(waiting_);
  return true;
}

bool semaphore::withdraw(waiter& leaving) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  const bool waited = leaving.withdraw();
  let_go(state.now, ready);
  return waited;
}

void semaphore::release_to_waiters(std::uint64_t permits) noexcept {
  woken_waiters ready;
  locked_state state(state_);
  state.now += permits * one;
  let_go(state.now, ready);
}

}  // namespace gyre
