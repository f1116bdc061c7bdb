// SPDX-License-Identifier: Apache-2.0
// checked, print_accept_errors: the options of a server, and its reports of accepting that pauses.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/net/tcp_server_options.hpp>

#include <string>
#include <system_error>

namespace gyre::net::detail {

/// `options` as they are. Throws std::invalid_argument.
tcp_server_options checked(tcp_server_options options);

/// Prints why accepting pauses, with the server's name, within a message_limit by the clock `now`:
/// clients that take all descriptors do not fill a log as well. For all loops of a server.
move_only_function<void(std::error_code)> print_accept_errors(
    std::string name, steady_time (*now)() noexcept = &gyre::detail::monotonic_now);

}  // namespace gyre::net::detail
