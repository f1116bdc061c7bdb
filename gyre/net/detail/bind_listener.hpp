// SPDX-License-Identifier: Apache-2.0
// bind_listener: binds a socket, where the file of an earlier Unix listener may be in the way.
#pragma once

#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

namespace gyre::net::detail {

/// Binds `unbound`, of any type, to `local`. With `replace_stale`, the file of a Unix socket that
/// is gone is removed first; not that of one that is bound and does not listen yet. Among several
/// that replace the same file at once, one succeeds. Throws what socket::bind() throws.
void bind_listener(const socket& unbound, const endpoint& local, bool replace_stale);

}  // namespace gyre::net::detail
