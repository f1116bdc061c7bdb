// SPDX-License-Identifier: Apache-2.0
//
// A spin lock, a bit of the list's head, guards the list of callbacks. The lock is held for a few
// instructions, never while a callback runs.
//
// A callback is taken out before it is called, and request_stop() does not touch it afterwards; so
// it may be destroyed while it runs by itself, and by others as soon as running_ has moved on.
#include <gyre/task/stop_token.hpp>

#include <new>

namespace gyre {

// Sets `locked` and `also_set` and returns the state before, or leaves all as it is if a bit of
// `blocking_bits` is set in the state that is returned.
auto inplace_stop_source::lock_unless(word blocking_bits, word also_set) const noexcept -> word {
  constexpr int spins = 64;  // after these the holder has probably lost its processor
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
  bool was_destroyed = false;
  destroyed_ = &was_destroyed;
  while (auto* callback = first(state)) {
    auto* rest = callback->next_;
    if (rest != nullptr) rest->previous_ = nullptr;
    // release: pairs with the acquire in sleep_while(): a wait for an earlier callback may end. The
    // lock orders this store for threads that find this callback taken out.
    running_.store(callback, std::memory_order_release);
    unlock(to_word(rest) | (state & unlinked) | stopped);
    callback->invoke_(*callback);
    if (was_destroyed) return true;
    detail::store_and_wake<detail::stop_callback_base*>(running_, nullptr);
    state = lock_unless(0, 0);
  }
  destroyed_ = nullptr;
  unlock((state & unlinked) | stopped);
  return true;
}

bool inplace_stop_source::link_requested_stop() const noexcept {
  // Other threads may be making the links, and not have come to this source yet.
  const inplace_stop_source* source = this;
  while (auto* const lazy = detail::linked_stop_source::unlinked_one(source)) {
    if (source == this) lazy->make_link();
    // acquire: as in stop_requested().
    if ((source->state_.load(std::memory_order_acquire) & stopped) != 0) return true;
    source = lazy->parent_.source_;
  }
  return (source->state_.load(std::memory_order_acquire) & stopped) != 0;
}

detail::linked_stop_source* detail::linked_stop_source::unlinked_one(
    const inplace_stop_source* source) noexcept {
  // acquire: pairs with the release in unlock(); a stop that came with the link is seen.
  if ((source->state_.load(std::memory_order_acquire) & unlinked) == 0) return nullptr;
  return static_cast<linked_stop_source*>(const_cast<inplace_stop_source*>(source));
}

// Links this source, and its unlinked ancestors before it: in a loop, as there may be thousands.
void detail::linked_stop_source::make_link() noexcept {
  linked_stop_source* first = nullptr;
  for (auto* each = this; each != nullptr; each = unlinked_one(each->parent_.source_)) {
    // relaxed: those who lose need not wait: a stop that comes with the link calls their callbacks.
    if (each->claimed_.exchange(true, std::memory_order_relaxed)) break;
    each->next_to_link_ = first;
    first = each;
  }
  while (first != nullptr) {
    linked_stop_source& ready = *first;
    first = ready.next_to_link_;
    ::new (&ready.link_) link(ready.parent_, request_stop_of{&ready});
    ready.unlock(ready.lock_unless(0, 0) & ~unlinked);
  }
}

void inplace_stop_source::attach(detail::stop_callback_base& callback) const noexcept {
  if (auto* const lazy = detail::linked_stop_source::unlinked_one(this)) [[unlikely]]
    lazy->make_link();
  const word state = lock_unless(stopped, 0);
  if ((state & stopped) != 0) {
    callback.source_ = nullptr;
    return callback.invoke_(callback);
  }
  callback.next_ = first(state);
  if (callback.next_ != nullptr) callback.next_->previous_ = &callback;
  unlock(to_word(&callback) | (state & unlinked));
}

void inplace_stop_source::detach(detail::stop_callback_base& callback) const noexcept {
  const word state = lock_unless(0, 0);
  auto* next = callback.next_;
  auto* previous = callback.previous_;
  const bool is_first = first(state) == &callback;
  if (is_first || previous != nullptr) {
    if (next != nullptr) next->previous_ = previous;
    if (previous != nullptr) previous->next_ = next;
    unlock(is_first ? to_word(next) | (state & flags) : state);
    return;
  }
  unlock(state);
  // The callback has been called, or is being called, maybe by this very thread.
  if (::pthread_equal(notifier_, ::pthread_self()) != 0) return;
  detail::sleep_while(running_, &callback);
}

}  // namespace gyre
