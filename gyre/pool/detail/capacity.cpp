// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/places.hpp>

#include <gyre/base/detail/futex.hpp>

namespace gyre::detail {

void places_futex::wait(const word& on, std::uint32_t expected, steady_time deadline) noexcept {
  futex_wait_until(on, expected, deadline);
}

void places_futex::wake(const word* on) noexcept { futex_wake_one(on); }

}  // namespace gyre::detail
