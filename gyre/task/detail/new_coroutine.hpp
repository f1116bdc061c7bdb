// SPDX-License-Identifier: Apache-2.0
// handle_of_new: the handle of a coroutine for its return object. Refuses the coroutines for which
// GCC before 12.3 makes wrong code (GCC bug 106188).
#pragma once

#include <coroutine>
#include <cstdint>

namespace gyre::detail {

#if !defined(__clang__) && (__GNUC__ < 12 || (__GNUC__ == 12 && __GNUC_MINOR__ < 3))
#define GYRE_MISPLACES_FRAMES 1
#else
#define GYRE_MISPLACES_FRAMES 0
#endif

/// Says on stderr how to write the coroutine instead, and ends the program.
[[noreturn, gnu::cold]] void abort_for_misplaced_frame() noexcept;

#if GYRE_MISPLACES_FRAMES

/// A coroutine without local variables that awaits in the condition of an `if`, a loop or a
/// `switch` gets a frame in which something stands before the address that resumes it; some of its
/// handles refer to the one, some to the other. Frames are aligned to 16 bytes, which the optimiser
/// knows, so this costs other coroutines nothing.
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
