// SPDX-License-Identifier: Apache-2.0
#include <gyre/pool/detail/capacity.hpp>

#include <gyre/base/detail/futex.hpp>

namespace gyre::detail {

void capacity_futex::wait(const word& on, std::uint32_t expected, steady_time deadline) noexcept {
  futex_wait_until(on, expected, deadline);
}

void capacity_futex::wake(const word* on) noexcept { futex_wake_one(on); }

}  // namespace gyre::detail
