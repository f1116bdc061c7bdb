// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/futex.hpp>

#include <gyre/base/clock.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

namespace gyre::detail {

static_assert(sizeof(atomic<std::uint32_t>) == 4 && atomic<std::uint32_t>::is_always_lock_free);

// FUTEX_WAIT_BITSET has an absolute timeout: a non-negative time of CLOCK_MONOTONIC.
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time deadline) noexcept {
  // A deadline that has passed returns at once, because the kernel would add the timer slack of the
  // thread, 50 us.
  const bool has_deadline = deadline != steady_time::max();
  if (has_deadline && deadline <= monotonic_now()) return;
  const std::timespec deadline_spec =
      to_timespec(std::max(deadline.time_since_epoch(), std::chrono::nanoseconds{0}));
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
            has_deadline ? &deadline_spec : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_one(const atomic<std::uint32_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1);
}

void futex_wake_all(const atomic<std::uint32_t>* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max());
}

}  // namespace gyre::detail
