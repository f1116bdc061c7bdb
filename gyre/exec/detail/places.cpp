// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/places.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace gyre::detail {

void places_futex::wait(const word& round, std::uint32_t expected, steady_time deadline) noexcept {
  using namespace std::chrono;
  const nanoseconds since_boot = deadline.time_since_epoch();
  const auto whole_seconds = duration_cast<seconds>(since_boot);
  const timespec until{.tv_sec = whole_seconds.count(),
                       .tv_nsec = (since_boot - whole_seconds).count()};
  // The one form whose deadline is a point in time, of CLOCK_MONOTONIC. Whatever it returns, the
  // caller looks again.
  ::syscall(SYS_futex, &round, FUTEX_WAIT_BITSET_PRIVATE, expected, &until, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

void places_futex::wake(const word& round, std::size_t most) noexcept {
  ::syscall(SYS_futex, &round, FUTEX_WAKE_PRIVATE, static_cast<int>(most));
}

}  // namespace gyre::detail
