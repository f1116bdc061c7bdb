// SPDX-License-Identifier: Apache-2.0
//
// The list of callbacks behind a spin lock that is a bit of the list's head. It is held for a few
// instructions, never while a callback runs.
//
// A callback is taken out before it is called, and request_stop() does not touch it afterwards; so
// it may be destroyed while it runs by itself, and by others as soon as running_ has moved on.
#include <gyre/task/stop_token.hpp>

namespace gyre {

// Sets `locked` and `also_set` and returns the state before, or leaves all as it is if a bit of
// `blocking_bits` is set in the state that is returned.
auto inplace_stop_source::lock_unless(word blocking_bits, word also_set) const noexcept -> word {
  constexpr int spins = 64;  // more mean that the holder has lost the processor
  // acquire here and below: pairs with the release in unlock() and, for a stop, in request_stop().
  word state = state_.load(std::memory_order_acquire);
  for (int tries = 0;;) {
    if ((state & blocking_bits) != 0) return state;
    if ((state & locked) != 0) {
      ++tries < spins ? detail::cpu_relax() : detail::thread_yield();
      state = state_.load(std::memory_order_acquire);
      // release: what happened before a stop happens before its observers continue.
    } else if (state_.compare_exchange_weak(state, state | locked | also_set,
                                            std::memory_order_acq_rel, std::memory_order_acquire)) {
      return state;
    }
  }
}

void inplace_stop_source::unlock(word state) const noexcept {
  // release: pairs with the acquire in lock_unless() of the next holder.
  state_.store(state, std::memory_order_release);
}

bool inplace_stop_source::request_stop() noexcept {
  word state = lock_unless(stopped, stopped);
  if ((state & stopped) != 0) return false;
  notifier_ = ::pthread_self();
  bool destroyed = false;
  destroyed_ = &destroyed;
  while (auto* callback = first(state)) {
    auto* rest = callback->next_;
    if (rest != nullptr) rest->previous_ = nullptr;
    // release: pairs with the acquire in sleep_while(): a wait for an earlier callback may end. The
    // lock orders this store for threads that find this callback taken out.
    running_.store(callback, std::memory_order_release);
    unlock(to_word(rest) | stopped);
    callback->invoke_(*callback);
    if (destroyed) return true;
    detail::store_and_wake<detail::stop_callback_base*>(running_, nullptr);
    state = lock_unless(0, 0);
  }
  destroyed_ = nullptr;
  unlock(stopped);
  return true;
}

void inplace_stop_source::attach(detail::stop_callback_base& callback) const noexcept {
  const word state = lock_unless(stopped, 0);
  if ((state & stopped) != 0) {
    callback.source_ = nullptr;
    return callback.invoke_(callback);
  }
  callback.next_ = first(state);
  if (callback.next_ != nullptr) callback.next_->previous_ = &callback;
  unlock(to_word(&callback));
}

void inplace_stop_source::detach(detail::stop_callback_base& callback) const noexcept {
  const word state = lock_unless(0, 0);
  auto* next = callback.next_;
  auto* previous = callback.previous_;
  const bool is_first = first(state) == &callback;
  if (is_first || previous != nullptr) {
    if (next != nullptr) next->previous_ = previous;
    if (previous != nullptr) previous->next_ = next;
    unlock(is_first ? to_word(next) | (state & stopped) : state);
    return;
  }
  unlock(state);
  // The callback has been called, or is being called, maybe by this very thread.
  if (::pthread_equal(notifier_, ::pthread_self()) != 0) return;
  detail::sleep_while(running_, &callback);
}

}  // namespace gyre
