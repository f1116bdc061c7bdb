// SPDX-License-Identifier: Apache-2.0
// How workers lie down, sleep and are woken.
#include <gyre/pool/detail/idle_workers.hpp>

#include <gyre/base/detail/futex.hpp>

namespace gyre::detail {

// False when the deadline has passed; a notification may have come all the same.
bool parker::wait_until(steady_time deadline) noexcept {
  // acquire: pairs with the release in take_off().
  while (notified_.load(std::memory_order_acquire) == 0) {
    if (deadline != steady_time::max() && monotonic_now() >= deadline) return false;
    futex_wait_until(notified_, 0, deadline);
  }
  return true;
}

bool idle_workers::start_searching(parker& me) noexcept {
  if (me.searching_) return true;
  // relaxed, here and wherever the state changes: it publishes nothing; that a notifier's work and
  // a worker's last look do not miss each other is the fences' business.
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  do {
    if (searchers_in(state) >= most_searchers_.load(std::memory_order_relaxed)) return false;
  } while (!state_.compare_exchange_weak(state, state + searcher, std::memory_order_relaxed,
                                         std::memory_order_relaxed));
  me.searching_ = true;
  return true;
}

// Whether somebody sleeps and nobody searches any more. Who lies down later looks by himself.
bool idle_workers::stop_searching(parker& me) noexcept {
  if (!me.searching_) return false;
  me.searching_ = false;
  // acq_rel: pairs with that in notify(): who relied on this searcher has its work seen.
  return needs_searcher(state_.fetch_sub(searcher, std::memory_order_acq_rel) - searcher);
}

void idle_workers::lie_down(parker& me) noexcept {
  const std::lock_guard lock(mutex_);
  me.notified_.store(0, std::memory_order_relaxed);  // relaxed: notifiers come after, by mutex_
  beds_.push_front(me);
  state_.fetch_add(me.searching_ ? sleeper - searcher : sleeper, std::memory_order_relaxed);
  me.searching_ = false;
}

bool idle_workers::sleep(parker& me, steady_time deadline) noexcept {
  parks_.fetch_add(1, std::memory_order_relaxed);  // relaxed: statistics
  if (!me.wait_until(deadline)) return false;
  me.searching_ = true;  // the notifier has counted it
  return true;
}

// Of a worker that was not notified, as far as it knows.
void idle_workers::get_up(parker& me, bool to_search) noexcept {
  const std::lock_guard lock(mutex_);
  const bool notified = !me.is_linked();
  if (!notified) {
    me.unlink();
    state_.fetch_add(to_search ? searcher - sleeper : 0 - sleeper, std::memory_order_relaxed);
  }
  me.searching_ = notified || to_search;
}

parker& idle_workers::take_off() noexcept {
  parker& chosen = *beds_.pop_front();
  // release: pairs with the acquire in wait_until().
  chosen.notified_.store(1, std::memory_order_release);
  wakes_.fetch_add(1, std::memory_order_relaxed);  // relaxed: statistics
  return chosen;
}

void idle_workers::wake_one() noexcept {
  parker* chosen = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    do {
      if (!needs_searcher(state)) return;
    } while (!state_.compare_exchange_weak(state, state + searcher - sleeper,
                                           std::memory_order_relaxed, std::memory_order_relaxed));
    chosen = &take_off();
  }
  futex_wake_one(&chosen->notified_);
}

void idle_workers::notify_all() noexcept {
  const std::lock_guard lock(mutex_);
  while (!beds_.empty()) {
    state_.fetch_add(searcher - sleeper, std::memory_order_relaxed);
    futex_wake_one(&take_off().notified_);
  }
}

idle_counts idle_workers::counts() const noexcept {
  // relaxed: statistics
  return {.parks = parks_.load(std::memory_order_relaxed),
          .wakes = wakes_.load(std::memory_order_relaxed)};
}

}  // namespace gyre::detail
