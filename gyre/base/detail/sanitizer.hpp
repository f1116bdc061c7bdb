// SPDX-License-Identifier: Apache-2.0
// poison, add_leak_root: tell AddressSanitizer and LeakSanitizer about memory that gyre manages
// itself; empty in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define GYRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GYRE_ASAN 1
#endif
#endif

#if defined(GYRE_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace gyre::detail {

/// Whether this build checks addresses.
#if defined(GYRE_ASAN)
inline constexpr bool asan_is_on = true;
#else
inline constexpr bool asan_is_on = false;
#endif

/// Makes every access to the bytes an error that is reported.
inline void poison([[maybe_unused]] const void* memory,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(GYRE_ASAN)
  __asan_poison_memory_region(memory, bytes);
#endif
}

/// Allows access to the bytes again.
inline void unpoison([[maybe_unused]] const void* memory,
                     [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(GYRE_ASAN)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

/// Has the leak checker look for pointers in memory that did not come from malloc.
inline void add_leak_root([[maybe_unused]] const void* memory,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(GYRE_ASAN)
  __lsan_register_root_region(memory, bytes);
#endif
}

inline void remove_leak_root([[maybe_unused]] const void* memory,
                             [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(GYRE_ASAN)
  __lsan_unregister_root_region(memory, bytes);
#endif
}

}  // namespace gyre::detail
