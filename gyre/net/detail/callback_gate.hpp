// SPDX-License-Identifier: Apache-2.0
// callback_gate: stops the callbacks of a loop for good, from any thread, even if no thread runs
// the loop.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/fence.hpp>

#include <cstdint>

namespace gyre::net::detail {

/// A gate that is open until close(). The loop's thread holds a pass during each callback, which
/// costs a few plain instructions (Dekker's protocol with an asymmetric fence); close() waits until
/// no other callback runs.
class callback_gate {
 public:
  /// Held while a callback runs, on the loop's thread only; may be nested. Converts to false if the
  /// gate is closed.
  class pass {
   public:
    explicit pass(callback_gate& gate) noexcept : gate_(gate) {
      // relaxed: the fence orders this store before the load in is_open().
      gate_.call_count_.store(gate_.depth() + 1, std::memory_order_relaxed);
      asymmetric_light_fence();  // this fence pairs with the heavy fence in close()
    }
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;
    // release: pairs with the acquire in close(); makes the effects of the callback visible to the
    // thread that closes the gate.
    ~pass() { gate_.call_count_.store(gate_.depth() - 1, std::memory_order_release); }
    /// Whether the gate is open now.
    explicit operator bool() const noexcept { return gate_.is_open(); }

   private:
    callback_gate& gate_;
  };

  /// May be called from any thread. relaxed: the fence in pass orders the load; on the loop's own
  /// thread program order suffices.
  bool is_open() const noexcept { return !is_closed_.load(std::memory_order_relaxed); }

  /// Closes the gate, and returns when no callback runs. With `is_on_loop_thread`, on the loop's
  /// own thread, returns at once, because a running callback is the caller.
  void close(bool is_on_loop_thread) noexcept {
    // relaxed: the fence orders this store before the load of call_count_.
    is_closed_.store(true, std::memory_order_relaxed);
    if (is_on_loop_thread) return;
    asymmetric_heavy_fence();
    // acquire: pairs with the release in ~pass(); makes the effects of the last callback visible to
    // the caller.
    while (call_count_.load(std::memory_order_acquire) != 0) gyre::detail::thread_yield();
  }

 private:
  // relaxed: only the loop's thread stores call_count_.
  std::uint32_t depth() const noexcept { return call_count_.load(std::memory_order_relaxed); }

  gyre::detail::atomic<std::uint32_t> call_count_{0};
  gyre::detail::atomic<bool> is_closed_{false};
};

}  // namespace gyre::net::detail
