// SPDX-License-Identifier: Apache-2.0
// callback_gate: lets the owner of callbacks that a loop runs stop them for good, from any thread,
// and whether or not a thread runs the loop.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/fence.hpp>

#include <cstdint>

namespace gyre::net::detail {

/// Open until close(). The loop's thread passes it before each callback, which costs a few plain
/// instructions (Dekker's protocol with an asymmetric fence); close() waits for callbacks inside.
class callback_gate {
 public:
  /// On the loop's thread only; may be nested. False if the gate was closed.
  class pass {
   public:
    explicit pass(callback_gate& gate) noexcept : gate_(gate) {
      // relaxed: the fence orders it before the load in is_open().
      gate_.inside_.store(gate_.depth() + 1, std::memory_order_relaxed);
      asymmetric_light_fence();  // pairs with the heavy one in close()
    }
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;
    // release: pairs with the acquire in close(): close() sees what was done inside.
    ~pass() { gate_.inside_.store(gate_.depth() - 1, std::memory_order_release); }
    /// Whether the gate is open now.
    explicit operator bool() const noexcept { return gate_.is_open(); }

   private:
    callback_gate& gate_;
  };

  /// Any thread. relaxed: see pass; on the loop's own thread the order is the program's.
  bool is_open() const noexcept { return !closed_.load(std::memory_order_relaxed); }

  /// Ends all passing. On another thread than the loop's, returns when no callback is inside; on
  /// the loop's (`here`) a callback inside is the caller.
  void close(bool here) noexcept {
    // relaxed: the fence orders it before the load of inside_.
    closed_.store(true, std::memory_order_relaxed);
    if (here) return;
    asymmetric_heavy_fence();
    // acquire: pairs with the release of ~pass().
    while (inside_.load(std::memory_order_acquire) != 0) gyre::detail::thread_yield();
  }

 private:
  // relaxed: only the loop's thread writes it.
  std::uint32_t depth() const noexcept { return inside_.load(std::memory_order_relaxed); }

  gyre::detail::atomic<std::uint32_t> inside_{0};
  gyre::detail::atomic<bool> closed_{false};
};

}  // namespace gyre::net::detail
