// SPDX-License-Identifier: Apache-2.0
// How listeners get their address where the file of a former one may be in the way.
#pragma once

#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

namespace gyre::net::detail {

/// Binds `made` to `local`. With `replace_stale`, the file of a Unix socket at which nobody listens
/// any more is removed first. Throws what socket::bind() throws.
void bind_listener(const socket& made, const endpoint& local, bool replace_stale);

}  // namespace gyre::net::detail
