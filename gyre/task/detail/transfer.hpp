// SPDX-License-Identifier: Apache-2.0
// transfer_to: symmetric transfer from one coroutine to the next without growing the stack, by a
// tail call where the compiler is known to make one, else by a trampoline.
//
// Clang always makes the tail call. GCC makes it only with -foptimize-sibling-calls, and never
// under AddressSanitizer or ThreadSanitizer (GCC bug 100897). GYRE_HAS_SIBLING_CALLS says that the
// option is set; the CMake targets and gyre.pc set both. Files with tail calls and files with
// trampolines may be linked together, as transfers are inlined into each coroutine. See
// docs/design/coroutines.md.
#pragma once

#include <gyre/task/detail/backtrace.hpp>
#include <gyre/task/detail/never_resume.hpp>
#include <gyre/trace/detail/function_sequence.hpp>

#include <coroutine>

// Marks each await_suspend() that returns the result of transfer_to(), and the functions between
// them, as inlined: a copy shared by all coroutines would also be one indirect call with many
// targets. Clang must not be forced to inline (LLVM 56301).
#if defined(__clang__)
#define GYRE_INLINE_IN_GCC
#else
#define GYRE_INLINE_IN_GCC [[gnu::always_inline]]
#endif

namespace gyre::detail {

#if defined(__clang__) ||                                                                          \
    (defined(GYRE_HAS_SIBLING_CALLS) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
     !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_HWADDRESS__))
inline constexpr bool has_symmetric_transfer = true;
#else
inline constexpr bool has_symmetric_transfer = false;
#endif

/// The variable for the coroutine that this thread's trampoline resumes next; null if no trampoline
/// runs.
extern constinit thread_local std::coroutine_handle<>* next_on_trampoline;

/// Leaves `next` to the trampoline on which the calling coroutine runs, and returns a coroutine
/// that does nothing. If no trampoline runs, runs `next` and its successors on a new one before it
/// returns.
std::coroutine_handle<> leave_to_trampoline(std::coroutine_handle<> coroutine) noexcept;

/// Resumes `first`, then each coroutine that is left to this trampoline.
void run_on_trampoline(std::coroutine_handle<> first) noexcept;

/// Makes the return value of an await_suspend() that transfers to `next`. Must be the last action
/// of await_suspend(), because the awaiting coroutine may have been destroyed afterwards.
GYRE_INLINE_IN_GCC inline std::coroutine_handle<> transfer_to(
    std::coroutine_handle<> coroutine) noexcept {
  if constexpr (has_symmetric_transfer) {
    return coroutine;
  } else {
    return leave_to_trampoline(coroutine);
  }
}

/// Returns whether `first` may be resumed: false after never_resume(first).
inline bool may_resume([[maybe_unused]] std::coroutine_handle<> first) noexcept {
  if constexpr (records_backtraces) {
    return !is_never_resumed(first);
  } else {
    return true;
  }
}

/// Resumes `first` from a function that is not a coroutine. Returns when `first`, and every
/// coroutine to which control was transferred in turn, waits or has ended.
inline void resume(std::coroutine_handle<> first) noexcept {
  if (!may_resume(first)) [[unlikely]]
    return;
  trace::detail::note_resumed_coroutine(first.address());
  // A trampoline further down in the stack would continue only after this function's caller, which
  // may wait for `first`.
  if (next_on_trampoline != nullptr) [[unlikely]] {
    run_on_trampoline(first);
  } else {
    first.resume();
  }
}

}  // namespace gyre::detail
