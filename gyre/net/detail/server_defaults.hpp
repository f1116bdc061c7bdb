// SPDX-License-Identifier: Apache-2.0
// checked, print_accept_errors: check the options of a server, and report pauses of accepting.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/net/tcp_server_options.hpp>

#include <string>
#include <system_error>

namespace gyre::net::detail {

/// Returns `options` unchanged. Throws std::invalid_argument for options that make no sense.
tcp_server_options validate(tcp_server_options options);

/// Returns a function, for all loops of a server, that prints why accepting pauses, with the
/// server's name. A message_limit by the clock `now` keeps clients that use up all descriptors from
/// filling a log as well.
move_only_function<void(std::error_code)> print_accept_errors(
    std::string name, steady_time (*now)() noexcept = &gyre::detail::monotonic_now);

}  // namespace gyre::net::detail
