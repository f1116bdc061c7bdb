// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/idle_workers.hpp>

#include <gyre/base/detail/futex.hpp>

#include <algorithm>

namespace gyre::detail {

bool idle_workers::start_searching(parker& self) noexcept {
  if (self.is_searching_) return true;
  // relaxed, here and wherever state_ changes, because it publishes nothing: the fences ensure that
  // the last check of a worker finds a notifier's work, or that the notifier finds the sleeper.
  std::uint64_t state = state_.load(std::memory_order_relaxed);
  const std::uint32_t max_searchers = std::max(2U, workers_.load(std::memory_order_relaxed) / 2);
  do {
    if (searchers_in(state) >= max_searchers) return false;
  } while (!state_.compare_exchange_weak(state, state + searcher, std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  self.is_searching_ = true;
  return true;
}

// Returns whether a worker sleeps and none searches any more. A worker that falls asleep later
// checks for work itself.
bool idle_workers::stop_searching(parker& self) noexcept {
  if (!self.is_searching_) return false;
  self.is_searching_ = false;
  // acq_rel: pairs with the operation in notify_slowly(); makes the work of notifiers that relied
  // on this searcher visible.
  return needs_searcher(state_.fetch_sub(searcher, std::memory_order_acq_rel) - searcher);
}

// The function is separate, so that the short path of notify() saves no registers.
void idle_workers::notify_slowly(std::uint64_t state) noexcept {
  if ((state & busy) == 0) state = state_while_not_busy();
  if (sleepers_in(state) == 0) return;
  // The notifier may rely on a searcher only if that searcher has not stopped. acq_rel: pairs with
  // the operation in stop_searching(), so that a searcher that stops afterwards sees the work.
  if (searchers_in(state) != 0) state = state_.fetch_add(0, std::memory_order_acq_rel);
  if (needs_searcher(state)) wake_one();
}

// Returns state_ after a full fence, because a worker may fall asleep at the same time. All
// notifiers write the count, but only for the first `busy_threshold_` notifications.
std::uint64_t idle_workers::state_while_not_busy() noexcept {
  full_fence();
  // relaxed, and not exact: the count decides only on the cost of later fences.
  const std::uint32_t count = notifications_.load(std::memory_order_relaxed) + 1;
  notifications_.store(count, std::memory_order_relaxed);
  if (count < busy_threshold_) return state_.load(std::memory_order_relaxed);
  return state_.fetch_or(busy, std::memory_order_relaxed);
}

// Adds the worker to the sleepers. Returns whether the workers counted as busy: then the worker
// needs the heavy fence, after which no notifier still regards them as busy. Notifications are
// counted only while the workers are not busy; so every `parks_per_recount` sleeps the busy state
// ends even if some workers are awake.
bool idle_workers::add_sleeper(parker& self) noexcept {
  constexpr unsigned parks_per_recount = 64;
  const std::lock_guard lock(mutex_);
  self.wake_word_.store(0, std::memory_order_relaxed);  // relaxed: mutex_ orders later notifiers
  sleepers_.push_front(self);
  notifications_.store(0, std::memory_order_relaxed);
  const bool ends_busy_period = ++parks_ % parks_per_recount == 0;
  const std::uint64_t own_search = self.is_searching_ ? searcher : 0;
  self.is_searching_ = false;
  std::uint64_t old_state = state_.load(std::memory_order_relaxed);
  std::uint64_t new_state = 0;
  do {
    new_state = old_state + sleeper - own_search;
    const bool all_sleep = sleepers_in(new_state) >= workers_.load(std::memory_order_relaxed);
    if (ends_busy_period || all_sleep) new_state &= ~busy;
  } while (!state_.compare_exchange_weak(old_state, new_state, std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  return (old_state & busy) != 0;
}

// Returns false when the deadline has passed; the worker may have been notified nevertheless.
bool idle_workers::sleep(parker& self, steady_time deadline) noexcept {
  // acquire: pairs with the release in pop_sleeper().
  while (self.wake_word_.load(std::memory_order_acquire) == 0) {
    if (deadline != steady_time::max() && monotonic_now() >= deadline) return false;
    futex_wait_until(self.wake_word_, 0, deadline);
  }
  self.is_searching_ = true;  // the notifier has counted this worker as a searcher
  return true;
}

// Removes a worker that has seen no notification from the sleepers, unless it was notified
// meanwhile.
void idle_workers::remove_sleeper(parker& self, bool becomes_searcher) noexcept {
  const std::lock_guard lock(mutex_);
  const bool was_notified = !self.is_linked();
  if (!was_notified) {
    self.unlink();
    state_.fetch_add(becomes_searcher ? searcher - sleeper : 0 - sleeper,
                     std::memory_order_relaxed);
  }
  self.is_searching_ = was_notified || becomes_searcher;
}

parker& idle_workers::pop_sleeper() noexcept {
  parker& oldest = *sleepers_.pop_front();
  // release: pairs with the acquire in sleep().
  oldest.wake_word_.store(1, std::memory_order_release);
  wakes_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the counter is a statistic
  return oldest;
}

void idle_workers::wake_one() noexcept {
  parker* last_sleeper = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    do {
      if (!needs_searcher(state)) return;
    } while (!state_.compare_exchange_weak(state, state + searcher - sleeper,
                                           std::memory_order_relaxed, std::memory_order_relaxed));
    last_sleeper = &pop_sleeper();
  }
  futex_wake_one(&last_sleeper->wake_word_);
}

void idle_workers::notify_all() noexcept {
  const std::lock_guard lock(mutex_);
  while (!sleepers_.empty()) {
    state_.fetch_add(searcher - sleeper, std::memory_order_relaxed);
    futex_wake_one(&pop_sleeper().wake_word_);
  }
}

}  // namespace gyre::detail
