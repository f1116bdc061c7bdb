// SPDX-License-Identifier: Apache-2.0
// handle_of_new: returns a new coroutine's handle for its return object. Rejects the coroutines for
// which GCC before 12.3 generates wrong code (GCC bug 106188).
#pragma once

#include <coroutine>
#include <cstdint>

namespace gyre::detail {

#if !defined(__clang__) && (__GNUC__ < 12 || (__GNUC__ == 12 && __GNUC_MINOR__ < 3))
#define GYRE_MISPLACES_FRAMES 1
#else
#define GYRE_MISPLACES_FRAMES 0
#endif

/// Prints on stderr how to rewrite a coroutine whose frame GCC misplaces, and calls std::abort().
[[noreturn, gnu::cold]] void abort_for_misplaced_frame() noexcept;

#if GYRE_MISPLACES_FRAMES

/// Detects the frame of a coroutine that is affected by the bug: one without local variables that
/// awaits in the condition of an `if`, a loop or a `switch`. Its frame begins before the address
/// that resumes the coroutine, and some of its handles refer to the one address, some to the other.
/// Other frames are aligned to 16 bytes, which the optimiser knows, so the check is free for them.
template <class Promise>
[[gnu::always_inline]] inline std::coroutine_handle<Promise> handle_of_new(
    Promise& promise) noexcept {
  const auto handle = std::coroutine_handle<Promise>::from_promise(promise);
  if (reinterpret_cast<std::uintptr_t>(handle.address()) % 16 != 0) [[unlikely]]
    abort_for_misplaced_frame();
  return handle;
}

#else

template <class Promise>
std::coroutine_handle<Promise> handle_of_new(Promise& promise) noexcept {
  return std::coroutine_handle<Promise>::from_promise(promise);
}

#endif

}  // namespace gyre::detail
