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
  /// Lets several listeners share the port; the kernel spreads connections among them.
  bool reuse_port = false;
  /// An IPv6 listener takes no IPv4 connections, which else come from mapped addresses.
  bool v6_only = false;
  /// Set on the listener before it binds; connections inherit them, without a system call for each.
  socket_options accepted = {.no_delay = true};
};

/// A socket that listens for TCP connections, on a loop. One pointer, movable. Its members:
/// - accept(), accept(peer): awaited, wait for a connection and give it as a tcp_stream on the
///   listener's loop; its address is written to the endpoint `peer`. Awaited in the forms of
///   io::stream's operations (as they are, by as_expected(), within() a time limit), by one
///   coroutine at a time.
/// - accept_socket(), accept_socket(peer): likewise, but give a socket that no loop serves, for a
///   stream on another loop.
/// - close(): listens no more; connections that have not been accepted are reset. release(): as
///   close(), but returns the descriptor.
/// - local_endpoint(): the address, with the port that the kernel chose. options(): a socket_ref
///   for options, valid until the listener is closed. is_open(), and fd(): -1 once closed.
/// - refused(): counts connections that were closed for want of a descriptor, a watch or memory.
///
/// Unlike a tcp_server, a tcp_listener limits neither the number of connections, in all or from one
/// address, nor what they hold, nor how long they last: take a semaphore_permit before accept() and
/// let the coroutine that serves hold it (docs/guide/network.md, part 11).
///
/// Thread-safety: as io::stream.
/// Lifetime: as io::stream; movable, also while a coroutine accepts.
/// Errors: accept() ends with operation_cancelled when a stop is requested,
/// std::errc::operation_canceled when the listener is closed, std::errc::timed_out after the limit
/// of within(), std::errc::operation_in_progress if another coroutine accepts. A lack of
/// descriptors (EMFILE, ENFILE) or memory does not end it: connections that wait are refused, by
/// closing them, which is reported once on stderr, and accept() tries again after 10 ms, 20 ms and
/// so on up to a second. A connection that the loop cannot serve (ENOSPC: too many watches; no
/// memory) is refused in the same way, and the next one accepted. local_endpoint() and options
/// throw std::system_error.
class tcp_listener : public detail::listener<tcp_stream> {
 public:
  /// Binds and listens. Port 0: one of the kernel's choice. Throws std::system_error:
  /// std::errc::address_in_use, address_not_available, permission_denied, too_many_files_open.
  tcp_listener(event_loop& loop, const endpoint& local, const listener_options& options = {});
  /// Serves a socket that listens already, and does not block.
  tcp_listener(event_loop& loop, socket listening_socket)
      : listener(loop, std::move(listening_socket)) {}
};

}  // namespace gyre::net
