// SPDX-License-Identifier: Apache-2.0
// How workers lie down, sleep and are woken.
#include <gyre/exec/detail/idle_workers.hpp>

#if !defined(GYRE_MODEL_CHECK)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <ctime>
#endif

namespace gyre::detail {
namespace {

using futex_word = gyre::detail::atomic<std::uint32_t>;

#if defined(GYRE_MODEL_CHECK)

// In the model a deadline has passed as soon as somebody looks.
bool sleep_while_zero(const futex_word& word, steady_time deadline) {
  if (deadline != steady_time::max()) return false;
  sleep_while(word, 0U);
  return true;
}
void wake_sleeper(const futex_word&) {}

#else

// std::atomic::wait() knows no deadline.
int futex(const futex_word& word, int operation, const timespec* deadline) noexcept {
  static_assert(sizeof(futex_word) == sizeof(std::uint32_t));
  const std::uint32_t awaited_or_woken = operation == FUTEX_WAKE_BITSET ? 1 : 0;
  const long result = ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, awaited_or_woken,
                                deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
  return result < 0 ? errno : 0;
}

// False when the deadline has passed. May return early.
bool sleep_while_zero(const futex_word& word, steady_time deadline) noexcept {
  if (deadline == steady_time::max()) {
    futex(word, FUTEX_WAIT_BITSET, nullptr);
    return true;
  }
  const auto since_epoch = std::max(deadline.time_since_epoch(), std::chrono::nanoseconds{0});
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const timespec until{.tv_sec = seconds.count(), .tv_nsec = (since_epoch - seconds).count()};
  return futex(word, FUTEX_WAIT_BITSET, &until) != ETIMEDOUT;
}

// The word may be gone by now: the kernel then finds nobody there, or somebody who looks again.
void wake_sleeper(const futex_word& word) noexcept { futex(word, FUTEX_WAKE_BITSET, nullptr); }

#endif

}  // namespace

// False when the deadline has passed; a notification may have come all the same.
bool parker::wait_until(steady_time deadline) noexcept {
  // acquire: pairs with the release in take_off().
  while (notified_.load(std::memory_order_acquire) == 0) {
    if (!sleep_while_zero(notified_, deadline)) return false;
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
  return needs_searcher(state_.fetch_sub(searcher, std::memory_order_relaxed) - searcher);
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
  wake_sleeper(chosen->notified_);
}

void idle_workers::notify_all() noexcept {
  const std::lock_guard lock(mutex_);
  while (!beds_.empty()) {
    state_.fetch_add(searcher - sleeper, std::memory_order_relaxed);
    wake_sleeper(take_off().notified_);
  }
}

idle_counts idle_workers::counts() const noexcept {
  // relaxed: statistics
  return {.parks = parks_.load(std::memory_order_relaxed),
          .wakes = wakes_.load(std::memory_order_relaxed)};
}

}  // namespace gyre::detail
