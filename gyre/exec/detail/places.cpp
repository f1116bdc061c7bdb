// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/places.hpp>

#include <gyre/exec/detail/futex.hpp>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gyre::detail {

void places_futex::wait(const word& round, std::uint32_t expected, steady_time deadline) noexcept {
  futex_wait_until(round, expected, deadline);
}

void places_futex::wake(const word& round, std::size_t most) noexcept {
  ::syscall(SYS_futex, &round, FUTEX_WAKE_PRIVATE, static_cast<int>(most));
}

}  // namespace gyre::detail
