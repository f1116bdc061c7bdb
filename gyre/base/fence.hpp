// SPDX-License-Identifier: Apache-2.0
// asymmetric fence: a store-load barrier whose whole cost is on the side that runs rarely.
//
// One side stores X, fences, loads Y; the other stores Y, fences, loads X; at least one of them
// sees the other's store. The hot side's fence restrains only the compiler; the cold side makes the
// kernel run a full barrier on every running thread of the process (membarrier(2)). Source:
// Goldblatt, P1202; folly's AsymmetricThreadFence; Dice, Huang and Yang, "Asymmetric Dekker
// synchronization", 2001.
//
// ThreadSanitizer does not model fences (GCC bug 97868): a fence here orders a store before a load
// and nothing else. To publish data, use release and acquire on the operations themselves.
#pragma once

#include <atomic>

#if defined(GYRE_MODEL_CHECK)
#include <tests/model/model.hpp>
#endif

namespace gyre {

namespace detail {

/// Whether light fences may be mere compiler fences. Set at most once, after the process has
/// registered with membarrier(2) and before the first heavy fence ends.
extern constinit std::atomic<bool> light_fence_is_free;

void heavy_fence() noexcept;

/// The number of full fences that cost about as much as a heavy one: some two microseconds.
inline constexpr unsigned full_fences_per_heavy_one = 256;

/// Makes both sides use full fences if `is_forced` is true, else the fences that the system offers.
/// For tests. No other thread may use the fences during the call.
void force_symmetric_fences(bool is_forced) noexcept;

/// Runs a full fence, for both sides if neither runs rarely: some 20 cycles.
inline void full_fence() noexcept {
#if defined(GYRE_MODEL_CHECK)
  model::thread_fence(std::memory_order_seq_cst);
#else
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // callers do not need happens-before from this fence
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
}

}  // namespace detail

#if defined(GYRE_MODEL_CHECK)

inline void asymmetric_light_fence() { model::asymmetric_light_fence(); }
inline void asymmetric_heavy_fence() { model::asymmetric_heavy_fence(); }

#else

/// The hot side's fence: orders the caller's earlier stores before its later loads with respect to
/// every thread that runs asymmetric_heavy_fence(). Two light fences do not order each other.
/// Thread-safety: any thread. Complexity: a load and a predicted branch; a full fence (some 20
/// cycles) if membarrier(2) is missing.
inline void asymmetric_light_fence() noexcept {
  // relaxed: a thread that reads a stale false runs a full fence, which is always correct.
  if (detail::light_fence_is_free.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    detail::full_fence();
  }
}

/// The cold side's fence: a full barrier on the calling thread and, between two instructions, on
/// every other thread of the process. Thread-safety: any thread, also in a forked child.
/// Complexity: one system call that interrupts the processors running this process, one to ten
/// microseconds; a full fence if membarrier(2) is missing.
inline void asymmetric_heavy_fence() noexcept { detail::heavy_fence(); }

#endif

/// Returns whether the light fence is free because membarrier(2) works: Linux 4.14 or later, and no
/// system-call filter that forbids it when the program starts; constant from then on. Start
/// programs that install such a filter later with GYRE_MEMBARRIER=0 in the environment. Any thread.
bool asymmetric_fence_uses_membarrier() noexcept;

}  // namespace gyre
