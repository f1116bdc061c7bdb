// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/splitmix64.hpp>

#include <gyre/base/clock.hpp>

#include <sys/random.h>

namespace gyre::detail {

std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed) return seed;
  return splitmix64(static_cast<std::uint64_t>(monotonic_now().time_since_epoch().count()))();
}

}  // namespace gyre::detail
