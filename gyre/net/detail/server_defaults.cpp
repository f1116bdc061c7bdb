// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/server_defaults.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/log.hpp>
#include <gyre/base/detail/message_limit.hpp>

#include <memory>
#include <stdexcept>
#include <utility>

namespace gyre::net::detail {

tcp_server_options validate(tcp_server_options options) {
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

move_only_function<void(std::error_code)> print_accept_errors(std::string name,
                                                              steady_time (*now)() noexcept) {
  return [name = std::move(name), now,
          limit = std::make_unique<gyre::detail::message_limit>()](std::error_code reason) {
    if (!limit->may_print(now(), name.c_str(), "pauses of accepting")) return;
    gyre::detail::log(log_level::error, "gyre: ", name, ": accepting pauses: ", reason.message());
  };
}

}  // namespace gyre::net::detail
