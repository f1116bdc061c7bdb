// SPDX-License-Identifier: Apache-2.0
// A waiter that leaves the condition variable, notified or cancelled, joins the mutex's line
// outside of the condition variable's lock, and is resumed only by the mutex.
#include <gyre/sync/condition_variable.hpp>

namespace gyre {

using detail::locked_state;
using stage = detail::condition_waiter::stage;

bool condition_variable::enlist(waiter& node) noexcept {
  const locked_state state(lock_);
  if (node.cancelled) return false;
  node.current_stage = stage::condition;
  waiters_.push_back(node);
  return true;
}

void condition_variable::notify(std::size_t limit) noexcept {
  line notified_line;
  {
    const locked_state state(lock_);
    for (; limit > 0 && !waiters_.empty(); --limit) {
      move(static_cast<waiter&>(waiters_.front()), notified_line);
    }
  }
  hand_over(notified_line);
}

void condition_variable::cancel(waiter& node) noexcept {
  line cancelled;
  {
    const locked_state state(lock_);
    if (node.current_stage == stage::mutex) return;
    node.cancelled = true;
    if (node.current_stage == stage::unlisted) return;  // enlist() will see `cancelled`
    move(node, cancelled);
  }
  hand_over(cancelled);
}

void condition_variable::abandon(waiter& node) noexcept {
  {
    const locked_state state(lock_);
    if (node.current_stage == stage::condition) {
      line::remove(node);
      return;
    }
  }
  [[maybe_unused]] const bool has_waited = node.relocked->withdraw(node);
  assert(has_waited && "a coroutine was destroyed between its wake-up and its resumption");
}

void condition_variable::move(waiter& node, line& target) noexcept {
  line::remove(node);
  node.current_stage = stage::mutex;
  target.push_back(node);
}

void condition_variable::hand_over(line& waiters) noexcept {
  if (waiters.empty()) return;
  static_cast<waiter&>(waiters.front()).relocked->append(waiters);
}

}  // namespace gyre
