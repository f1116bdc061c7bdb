// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/parking_place.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include <gyre/io/detail/timespec.hpp>

namespace gyre::detail {

static_assert(sizeof(futex_word) == 4 && futex_word::is_always_lock_free);

void system_futex::wait(const futex_word& word, std::uint32_t expected,
                        steady_time deadline) noexcept {
  // Absolute, in CLOCK_MONOTONIC, and the kernel refuses a negative one.
  const auto until =
      to_timespec(std::max(deadline.time_since_epoch(), std::chrono::nanoseconds{0}));
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
            deadline == steady_time::max() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void system_futex::wake_one(const futex_word& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace gyre::detail
