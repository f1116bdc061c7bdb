// SPDX-License-Identifier: Apache-2.0
// posting: the part of a loop's interface that takes callables.
#pragma once

#include <gyre/base/detail/misuse.hpp>

#include <utility>

namespace gyre {

/// A CRTP mixin that posts callables, also move-only ones, to an event_loop or a basic_loop.
///
/// Thread-safety: every member may be called from any thread, tasks of the loop included.
/// Errors: std::bad_alloc, and exceptions of the callable's copy or move constructor: nothing has
/// then been posted, but an rvalue may have been moved from.
/// Complexity: gyre's own inboxes store a callable of up to 120 bytes, aligned no stricter than a
/// pointer and with a move that cannot throw, in place, and any other in a block of the slab
/// (base/slab.hpp); through an event_loop, the same and one virtual call. A system call is made if
/// the loop sleeps. A thread that posts to a running loop with thousands of waiting tasks may sleep
/// for up to 1 ms first (back-pressure).
template <class Loop>
class posting {
 public:
  /// Runs `callable` on the loop's thread, in the inbox's order. If the loop's thread posts it,
  /// `callable` runs after post() has returned.
  template <class F>
    requires detail::postable<F>
  void post(F&& callable) {
    auto slot = self().take_slot();
    self().push(std::forward<F>(callable));
    static_cast<void>(slot.release());
  }
  /// Like post(), but returns false if loop_options::inbox_limit tasks wait; `callable` is then not
  /// moved from.
  template <class F>
    requires detail::postable<F>
  [[nodiscard]] bool try_post(F&& callable) {
    auto slot = self().try_take_slot();
    if (!slot) return false;
    self().push(std::forward<F>(callable));
    static_cast<void>(slot->release());
    return true;
  }
  /// Calls `callable` immediately if the caller is a task of the loop, and passes its exceptions
  /// on; else posts it. Also posts it while a task of the loop runs another loop or a sync_wait().
  template <class F>
    requires detail::postable<F>
  void dispatch(F&& callable) {
    if (self().running_here()) {
      std::forward<F>(callable)();
    } else {
      post(std::forward<F>(callable));
    }
  }

  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  void post(detail::misused_callable explained);
  template <class F, class... More>
  void post(F&& callable, detail::misused_argument explained, More&&... arguments);
  bool try_post(detail::misused_callable explained);
  template <class F, class... More>
  bool try_post(F&& callable, detail::misused_argument explained, More&&... arguments);
  void dispatch(detail::misused_callable explained);
  template <class F, class... More>
  void dispatch(F&& callable, detail::misused_argument explained, More&&... arguments);

 private:
  friend Loop;
  posting() = default;

  Loop& self() noexcept { return static_cast<Loop&>(*this); }
};

}  // namespace gyre
