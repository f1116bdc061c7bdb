// SPDX-License-Identifier: Apache-2.0
// tcp_listener: accepts TCP connections, for coroutines.
//
//     gyre::net::tcp_listener listener(loop, at);  // such as {gyre::net::ip_address::any_v6(), 7}
//     for (;;) {
//       auto peer = co_await listener.accept();
//       scope.spawn(serve(std::move(peer)));
//     }
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/net/detail/listener.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_stream.hpp>

#include <sys/socket.h>

#include <utility>

namespace gyre::net {

/// How a tcp_listener listens.
struct listener_options {
  /// Connections that wait to be accepted, not negative; at most net.core.somaxconn.
  int backlog = SOMAXCONN;
  /// Lets the port be used while connections of an earlier listener linger.
  bool reuse_address = true;
  /// Lets several listeners share the port, one per loop for instance; the kernel spreads
  /// connections among them.
  bool reuse_port = false;
  /// An IPv6 listener takes no IPv4 connections, which else come from mapped addresses.
  bool v6_only = false;
  /// Set on the listener before it binds; connections inherit them, without a system call for each.
  socket_options accepted = {.no_delay = true};
};

/// A socket that listens for TCP connections, on a loop. Unlike a tcp_server it limits neither how
/// many there are, in all or from one address, nor what they hold, nor how long: take a
/// semaphore_permit before accept() and let the coroutine that serves hold it
/// (docs/guide/network.md, part 11). One pointer, movable. Threads and lifetimes are those of
/// io::stream. detail::listener says what it does: accept(), close() and so on.
class tcp_listener : public detail::listener<tcp_stream> {
 public:
  /// Binds and listens. With port 0 the kernel chooses one: see local_endpoint(). Throws
  /// std::system_error: std::errc::address_in_use, address_not_available, permission_denied,
  /// too_many_files_open.
  tcp_listener(event_loop& loop, const endpoint& local, const listener_options& options = {});
  /// Serves a socket that listens already, and does not block.
  tcp_listener(event_loop& loop, socket listening_socket)
      : listener(loop, std::move(listening_socket)) {}
};

}  // namespace gyre::net
