// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connection_pool.hpp>

#include <gyre/net/detail/errors.hpp>

namespace gyre::net::detail {

void check(const connection_pool_options& options) {
  constexpr std::chrono::nanoseconds zero{0};
  require(options.max_open > 0 && options.max_open <= semaphore::max(),
          "gyre::net::connection_pool: max_open must be at least 1, and less than 2^62");
  require(options.idle_timeout > zero, "gyre::net::connection_pool: idle_timeout is not positive");
  require(options.max_lifetime > zero, "gyre::net::connection_pool: max_lifetime is not positive");
  require(options.connect_timeout > zero,
          "gyre::net::connection_pool: connect_timeout is not positive");
}

}  // namespace gyre::net::detail
