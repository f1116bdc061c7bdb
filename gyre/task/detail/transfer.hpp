// SPDX-License-Identifier: Apache-2.0
// Symmetric transfer: how one coroutine hands the thread to the next without growing the stack. It
// is a tail call where the compiler is known to make one, else a trampoline.
//
// Clang always makes the tail call. GCC makes it only with -foptimize-sibling-calls, which is on
// from -O2 but not at -O1 and -Og, and never under AddressSanitizer or ThreadSanitizer (GCC bug
// 100897). No macro tells. So GCC's files use the trampoline, unless GYRE_HAS_SIBLING_CALLS says
// that the option is given: the CMake targets and gyre.pc give both.
//
// Files of both kinds may be part of one program. What hands over is inlined into each coroutine,
// so that the linker cannot replace it by a copy from a file of the other kind.
#pragma once

#include <gyre/task/detail/build_options.hpp>

#include <coroutine>

// Put on each await_suspend() that returns what transfer_to() returned, and on what stands between.
// Besides, GCC would otherwise share one copy among all coroutines, whose indirect call then has as
// many targets. Clang inlines by itself, and must not be forced to (LLVM 56301).
#if defined(__clang__)
#define GYRE_INLINE_IN_GCC
#else
#define GYRE_INLINE_IN_GCC [[gnu::always_inline]]
#endif

namespace gyre::detail {

#if defined(__clang__)
inline constexpr bool has_symmetric_transfer = true;
#elif defined(GYRE_HAS_SIBLING_CALLS) && defined(__OPTIMIZE__) &&      \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_HWADDRESS__)
inline constexpr bool has_symmetric_transfer = true;
#else
inline constexpr bool has_symmetric_transfer = false;
#endif

/// The coroutine that this thread's trampoline resumes next; null without a trampoline.
extern constinit thread_local std::coroutine_handle<>* next_on_trampoline;

/// Leaves `next` to the trampoline on which the calling coroutine runs, and returns a coroutine
/// that does nothing. Without a trampoline runs it, and what follows it, before returning.
std::coroutine_handle<> leave_to_trampoline(std::coroutine_handle<> next) noexcept;

/// Resumes `first`, then whatever is left to this trampoline.
void run_on_trampoline(std::coroutine_handle<> first) noexcept;

/// The return value of an await_suspend() that transfers to `next`. Must be its last action: the
/// awaiting coroutine may be gone afterwards.
GYRE_INLINE_IN_GCC inline std::coroutine_handle<> transfer_to(
    std::coroutine_handle<> next) noexcept {
  if constexpr (has_symmetric_transfer) {
    return next;
  } else {
    return leave_to_trampoline(next);
  }
}

#if GYRE_ASYNC_BACKTRACE
/// Makes resume() skip `given_up` for ever: a coroutine that must not run again, though an executor
/// still holds an operation that resumes it. Its frame must stay. For a program that has one thread
/// left. Throws std::bad_alloc.
void never_resume(std::coroutine_handle<> given_up);
bool may_resume(std::coroutine_handle<> first) noexcept;
#else
constexpr bool may_resume(std::coroutine_handle<>) noexcept { return true; }
#endif

/// Resumes `first` from ordinary code; returns when it, and whoever it transferred to, waits.
inline void resume(std::coroutine_handle<> first) noexcept {
  if (!may_resume(first)) [[unlikely]]
    return;
  // A trampoline further down the stack gets its turn only when the ordinary code has returned,
  // which may wait for `first`. Without one, the first coroutine that needs a trampoline makes it.
  if (next_on_trampoline != nullptr) [[unlikely]] {
    run_on_trampoline(first);
  } else {
    first.resume();
  }
}

}  // namespace gyre::detail
