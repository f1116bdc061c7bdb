// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/idle_workers.hpp>

#include <gyre/base/detail/futex.hpp>

#include <algorithm>

namespace gyre::detail {

bool idle_workers::start_searching(parker& self) noexcept {
  if (self.searching_) return true;
  // relaxed, here and wherever the state changes: it publishes nothing; the fences see to it that a
  // notifier's work and a worker's last look do not miss each other.
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  const std::uint32_t most = std::max(2U, workers_.load(std::memory_order_relaxed) / 2);
  do {
    if (searchers_in(state) >= most) return false;
  } while (!state_.compare_exchange_weak(state, state + searcher, std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  self.searching_ = true;
  return true;
}

// Returns whether a worker sleeps and none searches any more. A later sleeper looks by itself.
bool idle_workers::stop_searching(parker& self) noexcept {
  if (!self.searching_) return false;
  self.searching_ = false;
  // acq_rel: pairs with that in notify(), to see the work of notifiers that relied on this one.
  return needs_searcher(state_.fetch_sub(searcher, std::memory_order_acq_rel) - searcher);
}

// This path is a function of its own, so that the short path of notify() saves no registers.
void idle_workers::notify_slowly(std::uint64_t state) noexcept {
  if ((state & busy) == 0) state = state_while_not_busy();
  if (sleepers_in(state) == 0) return;
  // A searcher on which this relies must not have stopped. acq_rel: pairs with that in
  // stop_searching(); a searcher that stops after this sees the work.
  if (searchers_in(state) != 0) state = state_.fetch_add(0, std::memory_order_acq_rel);
  if (needs_searcher(state)) wake_one();
}

// The state behind a full fence, as a worker may fall asleep at the same time. All notifiers share
// the count, but only for `many_` notifications.
std::uint64_t idle_workers::state_while_not_busy() noexcept {
  full_fence();
  // relaxed, and not exact: it decides only what the next fences cost.
  const std::uint32_t count = notifications_.load(std::memory_order_relaxed) + 1;
  notifications_.store(count, std::memory_order_relaxed);
  if (count < many_) return state_.load(std::memory_order_relaxed);
  return state_.fetch_or(busy, std::memory_order_relaxed);
}

// Returns whether the workers were busy, so that the worker needs the heavy fence: after the fence
// no notifier takes workers for busy that are not. Now and then the workers cease to be busy
// although some are awake, as only notifications that are counted show whether many still come.
bool idle_workers::add_sleeper(parker& self) noexcept {
  constexpr unsigned parks_per_recount = 64;
  const std::lock_guard lock(mutex_);
  self.notified_.store(0, std::memory_order_relaxed);  // relaxed: notifiers come after, by mutex_
  sleepers_.push_front(self);
  notifications_.store(0, std::memory_order_relaxed);
  const bool recounts = ++parks_ % parks_per_recount == 0;
  const std::uint64_t leaves = self.searching_ ? searcher : 0;
  self.searching_ = false;
  std::uint64_t before = state_.load(std::memory_order_relaxed);
  std::uint64_t after = 0;
  do {
    after = before + sleeper - leaves;
    if (recounts || sleepers_in(after) >= workers_.load(std::memory_order_relaxed)) after &= ~busy;
  } while (!state_.compare_exchange_weak(before, after, std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  return (before & busy) != 0;
}

// Returns false when the deadline has passed; a notification may have come all the same.
bool idle_workers::sleep(parker& self, steady_time deadline) noexcept {
  // acquire: pairs with the release in pop_sleeper().
  while (self.notified_.load(std::memory_order_acquire) == 0) {
    if (deadline != steady_time::max() && monotonic_now() >= deadline) return false;
    futex_wait_until(self.notified_, 0, deadline);
  }
  self.searching_ = true;  // the notifier has counted it
  return true;
}

// Takes out a worker that has not seen a notification; one may have come.
void idle_workers::remove_sleeper(parker& self, bool searches) noexcept {
  const std::lock_guard lock(mutex_);
  const bool notified = !self.is_linked();
  if (!notified) {
    self.unlink();
    state_.fetch_add(searches ? searcher - sleeper : 0 - sleeper, std::memory_order_relaxed);
  }
  self.searching_ = notified || searches;
}

parker& idle_workers::pop_sleeper() noexcept {
  parker& chosen = *sleepers_.pop_front();
  // release: pairs with the acquire in sleep().
  chosen.notified_.store(1, std::memory_order_release);
  wakes_.fetch_add(1, std::memory_order_relaxed);  // relaxed: statistics
  return chosen;
}

void idle_workers::wake_one() noexcept {
  parker* chosen = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    do {
      if (!needs_searcher(state)) return;
    } while (!state_.compare_exchange_weak(state, state + searcher - sleeper,
                                           std::memory_order_relaxed, std::memory_order_relaxed));
    chosen = &pop_sleeper();
  }
  futex_wake_one(&chosen->notified_);
}

void idle_workers::notify_all() noexcept {
  const std::lock_guard lock(mutex_);
  while (!sleepers_.empty()) {
    state_.fetch_add(searcher - sleeper, std::memory_order_relaxed);
    futex_wake_one(&pop_sleeper().notified_);
  }
}

}  // namespace gyre::detail
