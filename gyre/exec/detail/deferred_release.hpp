// SPDX-License-Identifier: Apache-2.0
// deferred_release: calls back an object in a later turn of its loop, or when the loop is
// destroyed, and keeps the object alive until then, for callbacks that still run inside of it.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/exec/detail/release_queue.hpp>
#include <gyre/exec/event_loop.hpp>

#include <memory>
#include <utility>

namespace gyre::detail {

/// A callback by the loop to the object that has the deferred_release as a member.
///
/// | state  | post()           | the loop's turn    | the loop's end     |
/// |--------|------------------|--------------------|--------------------|
/// | idle   | posted           | -                  | -                  |
/// | posted | posted, no other | called once; idle  | called once; idle  |
///
/// Thread-safety: post() may be called from any thread; the function runs on the loop's thread, or
/// on the thread that destroys the loop.
/// Lifetime: the reference that post() takes keeps the owner alive until the function has run.
/// Errors: post() never fails; at the loop's end the function must not throw.
/// Complexity: no allocation; post() is an exchange and, when idle, one or two compare-and-swaps.
template <class Owner>
class deferred_release final : release_node {
 public:
  using function = void (*)(std::shared_ptr<Owner> owner, release_point point);

  explicit deferred_release(function release) noexcept
      : release_node(&deferred_release::run), release_(release) {}
  /// Posts the release to `loop`, which must be the same in each call. Does nothing if the release
  /// is posted already.
  void post(event_loop& loop, std::shared_ptr<Owner> owner) noexcept {
    // acq_rel: pairs with the exchange in run(), which sees what a caller did before a call that
    // found the release posted.
    if (is_posted_.exchange(true, std::memory_order_acq_rel)) return;
    owner_ = std::move(owner);
    loop.post_release(*this);
  }

 private:
  static void run(release_node& node, release_point point) {
    auto& self = static_cast<deferred_release&>(node);
    const function release = self.release_;
    std::shared_ptr<Owner> owner = std::move(self.owner_);
    self.is_posted_.exchange(false, std::memory_order_acq_rel);  // acq_rel: pairs with post()
    release(std::move(owner), point);
  }

  const function release_;
  atomic<bool> is_posted_{false};
  std::shared_ptr<Owner> owner_;  // set while posted
};

}  // namespace gyre::detail
