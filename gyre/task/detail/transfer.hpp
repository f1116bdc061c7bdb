// SPDX-License-Identifier: Apache-2.0
// How one coroutine hands the thread to the next. Symmetric transfer is a jump where the compiler
// makes it one. GCC does so only when it optimises, and not in sanitizer builds (GCC bug 100897):
// there coroutines take turns on a trampoline, so that the stack stays flat in every build.
#pragma once

#include <coroutine>

namespace gyre::detail {

// There is no macro for -O2; NDEBUG stands for it.
#if defined(__clang__) || (defined(__OPTIMIZE__) && defined(NDEBUG) && \
                           !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__))
inline constexpr bool has_symmetric_transfer = true;
#else
inline constexpr bool has_symmetric_transfer = false;
#endif

/// Leaves `next` to the trampoline on which the calling coroutine runs, and returns a coroutine that
/// does nothing. Without a trampoline runs it, and what follows it, before returning.
std::coroutine_handle<> leave_to_trampoline(std::coroutine_handle<> next) noexcept;

/// Resumes `first`, then whatever is left to this trampoline.
void run_on_trampoline(std::coroutine_handle<> first) noexcept;

/// What await_suspend() returns in order to go on with `next`. Must be the last thing it does: the
/// awaiting coroutine may be gone afterwards.
inline std::coroutine_handle<> transfer_to(std::coroutine_handle<> next) noexcept {
  if constexpr (has_symmetric_transfer) {
    return next;
  } else {
    return leave_to_trampoline(next);
  }
}

/// Resumes `first` from ordinary code; returns when it, and whoever it transferred to, waits.
inline void resume(std::coroutine_handle<> first) noexcept {
  if constexpr (has_symmetric_transfer) {
    first.resume();
  } else {
    run_on_trampoline(first);
  }
}

}  // namespace gyre::detail
