// SPDX-License-Identifier: Apache-2.0
// atomic: the atomics of gyre's lock-free code. They are std::atomic in programs; where
// GYRE_MODEL_CHECK is defined, they are the atomics of the exhaustive scheduler of the model checks
// (like loom in Tokio).
#pragma once

#if __cplusplus <= 202002L
#error "gyre needs C++23: compile with -std=c++23"
#endif
#if !defined(__GXX_RTTI)
#error "gyre needs run-time type information: compile without -fno-rtti"
#endif
#if !defined(__cpp_exceptions)
#error "gyre reports errors and cancellation by exceptions: compile without -fno-exceptions"
#endif

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

template <typename T>
void sleep_while(const atomic<T>& value, T old_value) {
  while (value.load(std::memory_order_acquire) == old_value) ::gyre::model::yield();
}
template <typename T>
void store_and_wake(atomic<T>& value, T new_value) {
  value.store(new_value, std::memory_order_release);
}

#else

template <typename T>
using atomic = std::atomic<T>;

/// Tells the processor that the thread spins: the sibling hyper-thread gets the core, and leaving
/// the loop causes no memory-order machine clear. About 40 to 140 cycles.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");  // `yield` is a no-op on common cores
#else
  __asm__ volatile("" ::: "memory");
#endif
}

/// Yields the rest of the time slice to another runnable thread. One system call.
inline void thread_yield() noexcept { ::sched_yield(); }

/// Sleeps in the kernel, after spinning for a moment, until `value` is not `old`. The
/// store_and_wake() that ended the sleep happens before the return.
template <typename T>
void sleep_while(const atomic<T>& value, T old_value) noexcept {
  value.wait(old_value, std::memory_order_acquire);  // acquire: pairs with store_and_wake()
}

/// Stores `desired`, with release order or stronger, and wakes all threads that sleep on `value`.
/// `value` must outlive the call. No system call if no thread sleeps.
template <typename T>
void store_and_wake(atomic<T>& value, T new_value) noexcept {
  // The exchange is stronger than a store, because notify_all() of libstdc++ could load the number
  // of sleepers before a mere store becomes visible.
  value.exchange(new_value, std::memory_order_seq_cst);
  value.notify_all();
}

#endif

}  // namespace gyre::detail
