// SPDX-License-Identifier: Apache-2.0
// asymmetric fence: a store-load barrier whose whole price is paid by the side that runs rarely.
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

/// For tests: makes both sides use full fences (true) or what the system offers (false). No other
/// thread may use either fence meanwhile.
void force_symmetric_fences(bool forced) noexcept;

/// Both sides' fence where neither is rare: some 20 cycles.
inline void full_fence() noexcept {
#if defined(GYRE_MODEL_CHECK)
  model::thread_fence(std::memory_order_seq_cst);
#else
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // callers do not build happens-before on it, see above
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
/// Thread-safety: any thread. Costs a load and a predicted branch; a full fence (some 20 cycles)
/// where membarrier(2) is missing.
inline void asymmetric_light_fence() noexcept {
  // Relaxed: a reader of a stale false runs a full fence, which is always right.
  if (detail::light_fence_is_free.load(std::memory_order_relaxed)) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    detail::full_fence();
  }
}

/// The cold side's fence: a full barrier on the calling thread and, between two instructions, on
/// every other thread of the process. Thread-safety: any thread, also in a forked child. Costs one
/// system call that interrupts the processors running this process: one to ten microseconds; a full
/// fence where membarrier(2) is missing.
inline void asymmetric_heavy_fence() noexcept { detail::heavy_fence(); }

#endif

/// Whether the light fence is free because membarrier(2) works here: Linux 4.14 or later, and not
/// forbidden by a system-call filter when the program starts; constant from then on. Start programs
/// that install such a filter later with GYRE_MEMBARRIER=0 in the environment. Any thread.
bool asymmetric_fence_uses_membarrier() noexcept;

}  // namespace gyre
