// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/detail/places.hpp>

#include <gyre/exec/detail/futex.hpp>

namespace gyre::detail {

void places_futex::wait(const word& round, std::uint32_t expected, steady_time deadline) noexcept {
  futex_wait_until(round, expected, deadline);
}

void places_futex::wake(const word& round, std::size_t most) noexcept { futex_wake(&round, most); }

}  // namespace gyre::detail
