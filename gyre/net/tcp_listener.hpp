// SPDX-License-Identifier: Apache-2.0
// tcp_listener: a listening TCP socket for coroutines.
//
//     gyre::net::tcp_listener listener(loop, at);  // such as ":7000"
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

/// Options of a tcp_listener.
struct listener_options {
  /// The maximum number of connections that wait to be accepted, not negative; at most
  /// net.core.somaxconn.
  int backlog = SOMAXCONN;
  /// Lets the port be used while connections of an earlier listener linger.
  bool reuse_address = true;
  /// Lets several listeners share the port; the kernel spreads connections among them.
  bool reuse_port = false;
  /// Makes an IPv6 listener refuse IPv4 connections, which otherwise have v4-mapped addresses.
  bool v6_only = false;
  /// Options that are set on the listener before it binds. Connections inherit them without a
  /// system call for each.
  socket_options accepted = {.no_delay = true};
};

/// A listening TCP socket on a loop. One pointer, movable. Its members:
/// - accept(), accept(endpoint& peer): an awaitable of the next connection, a tcp_stream on the
///   listener's loop, whose address is written to `peer`. To be awaited in the forms of
///   io::stream's operations (as it is, by as_expected(), by with_timeout()), by one coroutine at a
///   time.
/// - accept_socket(), accept_socket(endpoint& peer): an awaitable of the next connection as a
///   socket that no loop serves yet, for a stream on another loop.
/// - close(): listens no more; connections that have not been accepted are reset. release(): does
///   what close() does, but returns the descriptor.
/// - local_endpoint(): the address, with the port that the kernel chose. options(): a socket_ref,
///   valid until the listener is closed. is_open(), and fd(): -1 once closed.
/// - refused(): the count of connections closed because a descriptor, a watch or memory lacked.
///
/// Unlike a tcp_server, a tcp_listener limits neither the number of connections, nor what they
/// hold, nor how long they last. To limit their number, take a semaphore_permit before accept() and
/// let the coroutine that serves hold it (docs/guide/network.md, part 11).
///
/// Thread-safety: as io::stream.
/// Lifetime: as io::stream; movable, also while a coroutine accepts. `peer` must outlive accept().
/// Errors: accept() throws gyre::operation_cancelled when a stop is requested, else
/// std::system_error: io::errc::closed when the listener is closed, busy if another coroutine
/// accepts. A lack of descriptors (EMFILE, ENFILE) or memory does not end accept(): waiting
/// connections are refused, by closing them, which is reported once on stderr, and accept() tries
/// again after 10 ms, 20 ms and so on up to a second. A connection that the loop cannot serve
/// (ENOSPC: too many watches; no memory) is refused in the same way, and the next one accepted. The
/// other members throw std::system_error.
/// Complexity: accept() allocates one block per connection.
class tcp_listener : public detail::listener<tcp_stream> {
 public:
  /// Binds and listens. Port 0: the kernel chooses. Throws std::system_error:
  /// std::errc::address_in_use, address_not_available, permission_denied, too_many_files_open.
  tcp_listener(event_loop& loop, const endpoint& local, const listener_options& options = {});
  /// Serves a non-blocking socket that listens already.
  tcp_listener(event_loop& loop, socket listening_socket)
      : listener(loop, std::move(listening_socket)) {}
};

}  // namespace gyre::net
