// SPDX-License-Identifier: Apache-2.0
// poison, add_leak_root: describe memory that gyre manages to AddressSanitizer and LeakSanitizer.
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

#if defined(GYRE_ASAN)

/// Whether this build checks addresses.
inline constexpr bool asan_is_on = true;

/// Makes AddressSanitizer report every access to the bytes.
inline void poison(const void* memory, std::size_t bytes) noexcept {
  __asan_poison_memory_region(memory, bytes);
}
/// Allows access to the bytes again.
inline void unpoison(const void* memory, std::size_t bytes) noexcept {
  __asan_unpoison_memory_region(memory, bytes);
}
/// Makes the leak checker search for pointers in memory that was not allocated by malloc.
inline void add_leak_root(const void* memory, std::size_t bytes) noexcept {
  __lsan_register_root_region(memory, bytes);
}
inline void remove_leak_root(const void* memory, std::size_t bytes) noexcept {
  __lsan_unregister_root_region(memory, bytes);
}

#else

inline constexpr bool asan_is_on = false;
inline void poison(const void*, std::size_t) noexcept {}
inline void unpoison(const void*, std::size_t) noexcept {}
inline void add_leak_root(const void*, std::size_t) noexcept {}
inline void remove_leak_root(const void*, std::size_t) noexcept {}

#endif

}  // namespace gyre::detail
