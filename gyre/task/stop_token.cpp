// SPDX-License-Identifier: Apache-2.0
//
// The list of callbacks is protected by a spin lock, which is a bit of the list's head. The lock is
// held for a few instructions, never while a callback runs.
//
// request_stop() removes a callback from the list before it calls it, and does not touch the
// callback afterwards. So a callback may destroy itself while it runs, and another thread may
// destroy it as soon as notification::running no longer refers to it. A thread that waits for that
// counts itself as a waiter while it holds the lock, and request_stop() returns after all waiters.
#include <gyre/task/stop_token.hpp>

#include <pthread.h>

#include <cassert>
#include <cstdint>
#include <new>

namespace gyre {

struct inplace_stop_source::notification {
  detail::stop_callback_base* first;  // of the callbacks that were not called; guarded by the lock
  detail::atomic<detail::stop_callback_base*> running{nullptr};  // the callback that is called
  detail::atomic<std::uint32_t> waiters{0};  // threads that wait for the end of a callback
  bool has_waited = false;                   // whether there was a waiter; guarded by the lock
  bool was_destroyed = false;                // whether a callback has destroyed the source
  const ::pthread_t thread = ::pthread_self();
};

// Called by a callback, which runs on the thread of the notification.
void inplace_stop_source::note_destruction() noexcept {
  // relaxed: this thread has stored the state.
  notification& calls = *notification_of(state_.load(std::memory_order_relaxed));
  assert(calls.first == nullptr &&
         "a callback has destroyed its stop source before the other callbacks were called");
  calls.was_destroyed = true;
}

// Sets `locked` and `added_bits`, and returns the state before that. If a bit of `blocking_bits` is
// set, changes nothing and returns the state with this bit.
auto inplace_stop_source::lock_unless(word blocking_bits, word added_bits) const noexcept -> word {
  // A number of pauses; a holder that takes longer has probably been preempted.
  constexpr int spins = 64;
  // acquire here and below: pairs with the release in unlock(), which makes the list visible, and,
  // if a stop was requested, with the release in request_stop().
  word state = state_.load(std::memory_order_acquire);
  for (int tries = 0;;) {
    if ((state & blocking_bits) != 0) return state;
    if ((state & locked) != 0) {
      ++tries < spins ? detail::cpu_relax() : detail::thread_yield();
      state = state_.load(std::memory_order_acquire);
      // release: makes the actions before a stop visible to the threads that observe the stop.
    } else if (state_.compare_exchange_weak(state, state | locked | added_bits,
                                            std::memory_order_acq_rel, std::memory_order_acquire)) {
      return state;
    }
  }
}

void inplace_stop_source::unlock(word state) const noexcept {
  // release: pairs with the acquire in lock_unless(); makes the list visible to the next holder of
  // the lock.
  state_.store(state, std::memory_order_release);
}

bool inplace_stop_source::request_stop() noexcept {
  word state = lock_unless(stopped, stopped);
  if ((state & stopped) != 0) return false;
  static_assert(alignof(notification) > flags);
  if (first(state) == nullptr) {
    unlock((state & unlinked) | stopped);
    return true;
  }
  notification calls{.first = first(state)};
  while (auto* const callback = calls.first) {
    calls.first = callback->next_;
    if (calls.first != nullptr) calls.first->previous_ = nullptr;
    // release: pairs with the acquire in sleep_while(), where a thread may wait for an earlier
    // callback. For threads that find this callback removed from the list, the lock orders this
    // store.
    calls.running.store(callback, std::memory_order_release);
    unlock(to_word(&calls) | (state & unlinked) | stopped);
    callback->invoke_(*callback);
    if (calls.was_destroyed) return true;
    detail::store_and_wake<detail::stop_callback_base*>(calls.running, nullptr);
    state = lock_unless(0, 0);
  }
  const bool has_waited = calls.has_waited;
  unlock((state & unlinked) | stopped);
  // acquire: pairs with the release in detach(), after which a waiter uses `calls` no more.
  while (has_waited && calls.waiters.load(std::memory_order_acquire) != 0) detail::thread_yield();
  return true;
}

bool inplace_stop_source::link_and_check_stop() const noexcept {
  // Another thread may be making the links, and may not have reached this source yet, so the
  // ancestors are examined, too.
  const inplace_stop_source* source = this;
  while (auto* const unlinked_source = detail::linked_stop_source::find_unlinked(source)) {
    if (source == this) unlinked_source->make_link();
    // acquire: pairs with the release in request_stop(), as in stop_requested().
    if ((source->state_.load(std::memory_order_acquire) & stopped) != 0) return true;
    source = unlinked_source->parent_.source_;
  }
  return (source->state_.load(std::memory_order_acquire) & stopped) != 0;
}

detail::linked_stop_source* detail::linked_stop_source::find_unlinked(
    const inplace_stop_source* source) noexcept {
  // acquire: pairs with the release in unlock(); makes a stop visible that was passed on when the
  // link was made.
  if ((source->state_.load(std::memory_order_acquire) & unlinked) == 0) return nullptr;
  return static_cast<linked_stop_source*>(const_cast<inplace_stop_source*>(source));
}

// Links this source and its unlinked ancestors, the ancestors first. Does so in a loop instead of
// by recursion, as there may be thousands of them.
void detail::linked_stop_source::make_link() noexcept {
  linked_stop_source* first = nullptr;
  for (auto* source = this; source != nullptr; source = find_unlinked(source->parent_.source_)) {
    // relaxed: a thread that finds the source claimed need not wait, because a stop that comes
    // through the link calls that thread's callbacks.
    if (source->is_claimed_.exchange(true, std::memory_order_relaxed)) break;
    source->next_to_link_ = first;
    first = source;
  }
  while (first != nullptr) {
    linked_stop_source& source = *first;
    first = source.next_to_link_;
    ::new (&source.link_) link(source.parent_, request_stop_of{&source});
    source.unlock(source.lock_unless(0, 0) & ~unlinked);
  }
}

bool inplace_stop_source::attach(detail::stop_callback_base& callback) const noexcept {
  if (auto* const unlinked_source = detail::linked_stop_source::find_unlinked(this)) [[unlikely]]
    unlinked_source->make_link();
  const word state = lock_unless(stopped, 0);
  if ((state & stopped) != 0) return false;
  callback.next_ = first(state);
  if (callback.next_ != nullptr) callback.next_->previous_ = &callback;
  unlock(to_word(&callback) | (state & unlinked));
  return true;
}

void inplace_stop_source::detach(detail::stop_callback_base& callback) const noexcept {
  const word state = lock_unless(0, 0);
  notification* const calls = notification_of(state);
  auto* next_callback = callback.next_;
  auto* previous_callback = callback.previous_;
  const bool is_first = (calls != nullptr ? calls->first : first(state)) == &callback;
  if (is_first || previous_callback != nullptr) {
    if (next_callback != nullptr) next_callback->previous_ = previous_callback;
    if (previous_callback != nullptr) previous_callback->next_ = next_callback;
    if (is_first && calls != nullptr) calls->first = next_callback;
    unlock(is_first && calls == nullptr ? to_word(next_callback) | (state & flags) : state);
    return;
  }
  // The callback was never in the list, or has been called, or is being called, possibly by this
  // thread.
  // acquire: pairs with the release of request_stop() after a call; makes its effects visible.
  const bool must_wait = calls != nullptr &&
                         calls->running.load(std::memory_order_acquire) == &callback &&
                         ::pthread_equal(calls->thread, ::pthread_self()) == 0;
  if (must_wait) {
    // relaxed: request_stop() reads the number after it has had the lock.
    calls->waiters.fetch_add(1, std::memory_order_relaxed);
    calls->has_waited = true;
  }
  unlock(state);
  if (!must_wait) return;
  detail::sleep_while(calls->running, &callback);
  // release: pairs with the acquire in request_stop(), which then destroys `calls`.
  calls->waiters.fetch_sub(1, std::memory_order_release);
}

}  // namespace gyre
