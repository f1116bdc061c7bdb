// SPDX-License-Identifier: Apache-2.0
//
// The atomics of gyre's concurrent code. Everything lock-free in gyre is written against
// detail::atomic, so that the very same source runs on std::atomic in programs and on the
// exhaustive scheduler in the model-check tests (as Tokio does with loom).
#pragma once

#if defined(GYRE_MODEL_CHECK)
#include <tests/model/model.hpp>
#else
#include <sched.h>

#include <atomic>
#endif

namespace gyre::detail {

#if defined(GYRE_MODEL_CHECK)

template <typename T>
using atomic = ::gyre::model::atomic<T>;

inline void cpu_relax() { ::gyre::model::yield(); }
inline void thread_yield() { ::gyre::model::yield(); }

#else

/// std::atomic in programs, the model checker's atomic where GYRE_MODEL_CHECK is defined.
template <typename T>
using atomic = std::atomic<T>;

/// Tells the processor that the caller spins: the sibling hyper-thread gets the core, and the
/// exit from the loop is not mispredicted as a memory-order violation. About 40 to 140 cycles.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // `yield` is a no-op on the common cores
#else
  __asm__ volatile("" ::: "memory");
#endif
}

/// Gives the rest of the time slice to another runnable thread. One system call.
inline void thread_yield() noexcept { ::sched_yield(); }

#endif

}  // namespace gyre::detail
