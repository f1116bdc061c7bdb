// SPDX-License-Identifier: Apache-2.0
// waiting_line: the state word of a primitive and its line of waiters, first come, first served.
#pragma once

#include <gyre/sync/detail/state_word.hpp>
#include <gyre/sync/detail/waiter.hpp>

#include <cassert>

namespace gyre::detail {

/// The base of `Primitive`, which has
///
///     static bool take(word& state, Waiter&) noexcept;  // Changes the state for the waiter;
///                                                       // false if the waiter must wait.
///     static constexpr bool takes_all_or_none = true;   // Optional: take() depends on the state
///                                                       // alone, and does not change it.
///
/// After a call another thread may have destroyed the primitive: the caller must not touch it,
/// unless it keeps the primitive alive itself.
template <class Primitive, class Waiter = waiter>
class waiting_line : public state_word {
 public:
  static constexpr word awaited = 2;  // set while line_ is not empty
  static constexpr word busy = locked | awaited;

  ~waiting_line() {
    assert(line_.empty() && "a primitive was destroyed while a coroutine waited for it");
  }

  // enlist() and withdraw() are what primitive_wait requires of its primitive. No member that takes
  // the lock is inlined: compilers may keep its locals in the coroutine's frame, which may be gone
  // once the waiter is in the line.
  [[gnu::noinline]] bool enlist(Waiter& node) noexcept {
    locked_state state(*this);
    if (line_.empty() && Primitive::take(state.value, node)) {
      node.complete();
      return false;
    }
    if (node.is_cancelled()) return false;
    state.value |= awaited;
    node.join(line_);
    return true;
  }
  [[gnu::noinline]] bool withdraw(Waiter& node) noexcept {
    woken_waiters ready;
    locked_state state(*this);
    const bool waited = node.withdraw();
    serve(state.value, ready);
    return waited;
  }

  /// Moves `waiters`, which waited at another primitive, to the end of the line.
  [[gnu::noinline]] void append(waiter_list<Waiter>& waiters) noexcept {
    woken_waiters ready;
    locked_state state(*this);
    while (Waiter* const each = waiters.pop_front()) each->join(line_);
    if (!line_.empty()) state.value |= awaited;
    serve(state.value, ready);
  }

  /// Calls `change_state` with the state, and then completes the waiters at the head of the line
  /// that need not wait any more.
  template <class Change>
  [[gnu::noinline]] void change(Change change_state) noexcept {
    woken_waiters ready;
    locked_state state(*this);
    change_state(state.value);
    serve(state.value, ready);
  }

 private:
  friend Primitive;
  constexpr explicit waiting_line(word initial = 0) noexcept : state_word(initial) {}

  void serve(word& state, woken_waiters& ready) noexcept {
    if constexpr (requires { Primitive::takes_all_or_none; }) {
      if (!line_.empty() && Primitive::take(state, line_.front())) ready.complete_all(line_);
    } else {
      while (!line_.empty() && Primitive::take(state, line_.front())) {
        ready.complete(line_.front());
      }
    }
    if (line_.empty()) state &= ~awaited;
  }

  waiter_list<Waiter> line_;
};

}  // namespace gyre::detail
