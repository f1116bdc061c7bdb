// SPDX-License-Identifier: Apache-2.0
// calls_in_flight: counts running calls of post(), so that an executor outlives them.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/base/cache_line.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gyre::detail {

/// Counts the calls of post(operation&) that have not returned. The operation may run, and its
/// coroutine may destroy the executor, while post() is still about to wake a thread: so the
/// executor's destructor waits until all counts are zero, and a call accesses nothing after it has
/// decremented its count.
class calls_in_flight {
 public:
  /// Counts one call from its construction to its destruction. Complexity: two uncontended atomic
  /// additions.
  class call {
   public:
    explicit call(calls_in_flight& calls) noexcept : count_(calls.counts_[own_stripe()].value) {
      // relaxed: only the decrement orders the call's effects.
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    call& operator=(call&&) = delete;
    // release: pairs with the acquire in wait_for_end().
    ~call() { count_.fetch_sub(1, std::memory_order_release); }

   private:
    std::atomic<std::uint32_t>& count_;
  };

  /// Waits until all calls whose operations have run have returned. acquire: pairs with the release
  /// in ~call().
  void wait_for_end() const noexcept {
    for (const count& stripe : counts_) {
      while (stripe.value.load(std::memory_order_acquire) != 0) thread_yield();
    }
  }

 private:
  static constexpr std::size_t stripes = 16;
  struct alignas(false_sharing_range) count {
    std::atomic<std::uint32_t> value{0};
  };

  // Returns the index of this thread's count. Threads that post at the same time seldom share one.
  // The function is not inlined, because a coroutine may be on another thread after each
  // suspension.
  [[gnu::noinline]] static std::size_t own_stripe() noexcept {
    static constinit std::atomic<std::size_t> next_index{0};
    static constinit thread_local std::size_t stripe = stripes;
    if (stripe == stripes) stripe = next_index.fetch_add(1, std::memory_order_relaxed) % stripes;
    return stripe;
  }

  std::array<count, stripes> counts_{};
};

}  // namespace gyre::detail
