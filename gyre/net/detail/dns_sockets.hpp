// SPDX-License-Identifier: Apache-2.0
// dns_sockets: the socket functions for c-ares.
#pragma once

struct ares_socket_functions;

namespace gyre::net::detail {

/// Used by c-ares in place of its own calls, because 1.18 writes to TCP connections by writev(2):
/// SIGPIPE, which ends a program by default, is then a name server's to raise. They make sockets as
/// c-ares does: non-blocking, close-on-exec, and without Nagle's algorithm.
extern const ares_socket_functions dns_socket_functions;

}  // namespace gyre::net::detail
