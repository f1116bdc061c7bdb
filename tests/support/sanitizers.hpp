// SPDX-License-Identifier: Apache-2.0
// The sanitizer of this build, for tests that it cannot check or that it makes slow.
#pragma once

#include <gyre/base/detail/sanitizer.hpp>

#if defined(__SANITIZE_THREAD__)
#define GYRE_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GYRE_TEST_TSAN 1
#endif
#endif

#if defined(GYRE_TEST_TSAN) || defined(GYRE_ASAN)
#define GYRE_TEST_SANITIZED 1
#endif

namespace gyre::test {

#if defined(GYRE_TEST_TSAN)
inline constexpr bool thread_sanitizer_is_on = true;
#else
inline constexpr bool thread_sanitizer_is_on = false;
#endif

/// `count`, or a fraction of it with a sanitizer, which makes each repetition much slower.
template <class Count>
constexpr Count unless_sanitized(Count count, Count divisor = 50) noexcept {
  return thread_sanitizer_is_on || gyre::detail::asan_is_on ? count / divisor : count;
}

}  // namespace gyre::test
