// SPDX-License-Identifier: Apache-2.0
// checked: refuses options of a server that make no sense.
#pragma once

#include <gyre/net/tcp_server.hpp>

namespace gyre::net::detail {

/// `options` as they are. Throws std::invalid_argument.
tcp_server_options checked(tcp_server_options options);

}  // namespace gyre::net::detail
