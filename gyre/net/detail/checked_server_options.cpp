// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/checked_server_options.hpp>

#include <gyre/base/detail/duration_check.hpp>

#include <stdexcept>

namespace gyre::net::detail {

tcp_server_options checked(tcp_server_options options) {
  using gyre::detail::require_not_negative;
  if (options.max_connections == 0) {
    throw std::invalid_argument("gyre::net::tcp_server: max_connections is zero");
  }
  gyre::detail::require_positive(options.accept_interval, "gyre::net::tcp_server: accept_interval");
  require_not_negative(options.accept_backoff, "gyre::net::tcp_server: accept_backoff");
  require_not_negative(options.accept_backoff_limit, "gyre::net::tcp_server: accept_backoff_limit");
  require_not_negative(options.stop_grace, "gyre::net::tcp_server: stop_grace");
  require_not_negative(options.proxy_protocol.timeout,
                       "gyre::net::tcp_server: proxy_protocol.timeout");
  return options;
}

}  // namespace gyre::net::detail
