// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/futex.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace gyre::detail {

// FUTEX_WAIT_BITSET: the one whose timeout is a point of CLOCK_MONOTONIC, not a duration.
void futex_wait_until(const atomic<std::uint32_t>& word, std::uint32_t expected,
                      steady_time deadline) noexcept {
  const auto since_epoch = deadline.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const std::timespec until{.tv_sec = seconds.count(), .tv_nsec = (since_epoch - seconds).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected,
            deadline == steady_time::max() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(const atomic<std::uint32_t>* word, std::size_t most) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, static_cast<int>(most));
}

void futex_wake_one(const atomic<std::uint32_t>* word) noexcept { futex_wake(word, 1); }

}  // namespace gyre::detail
