// SPDX-License-Identifier: Apache-2.0
// Whether ThreadSanitizer watches this build, for tests that it cannot judge.
#pragma once

namespace gyre::test {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitizer_is_on = true;
#elif defined(__has_feature)
inline constexpr bool thread_sanitizer_is_on = __has_feature(thread_sanitizer);
#else
inline constexpr bool thread_sanitizer_is_on = false;
#endif

}  // namespace gyre::test
