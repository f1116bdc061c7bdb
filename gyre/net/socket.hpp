// SPDX-License-Identifier: Apache-2.0
// socket: a non-blocking socket of the system (RAII), of which streams and listeners are made.
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>

#include <sys/socket.h>

#include <utility>

namespace gyre::net {

/// Types of sockets (socket(2)).
enum class socket_type : int {
  stream = SOCK_STREAM,
  datagram = SOCK_DGRAM,
  sequenced = SOCK_SEQPACKET,  ///< a connection that keeps the bounds of messages: Unix only
};

/// The directions of a connection that shutdown() ends.
enum class shutdown_side : int { receive = SHUT_RD, send = SHUT_WR, both = SHUT_RDWR };

/// A non-blocking, close-on-exec socket (RAII, move-only). The base, socket_ref, has the functions
/// for options and addresses.
///
/// Thread-safety: one thread at a time may move or close it; otherwise that of socket_ref.
/// Lifetime: the destructor closes the socket; an object that was moved from has none.
/// Errors: std::system_error with call and endpoint ("bind 127.0.0.1:80: Permission denied").
/// Complexity: at most one system call for each member.
class socket : public socket_ref {
 public:
  /// Constructs an object without a socket: fd() is negative.
  socket() noexcept : socket_ref(-1) {}
  /// Takes over `descriptor`, which must be non-blocking; that is not checked.
  explicit socket(unique_fd descriptor) noexcept
      : socket_ref(descriptor.get()), descriptor_(std::move(descriptor)) {}
  socket(socket&& other) noexcept : socket(other.release()) {}
  socket& operator=(socket&& other) noexcept {
    descriptor_ = other.release();
    rebind(descriptor_.get());
    return *this;
  }

  /// Opens a new socket. `protocol` is that of socket(2); 0 stands for the default of the type.
  /// Errors: std::errc::too_many_files_open, address_family_not_supported.
  static socket open(address_family family, socket_type type, int protocol = 0);

  explicit operator bool() const noexcept { return fd() >= 0; }
  /// Returns the descriptor without closing it.
  [[nodiscard]] unique_fd release() noexcept {
    rebind(-1);
    return std::move(descriptor_);
  }
  /// Closes the socket, if it is open.
  void close() noexcept { release().reset(); }

  /// Binds the socket. Errors: std::errc::address_in_use, address_not_available, permission_denied.
  void bind(const endpoint& local) const;
  /// Lets up to `backlog` connections wait for accept(), at most net.core.somaxconn. Errors:
  /// std::errc::invalid_argument for a negative number.
  void listen(int backlog = SOMAXCONN) const;
  /// Sets a datagram socket's peer, or begins a connection. Returns true if the socket is
  /// connected, and false if the attempt is under way: when the socket becomes writable,
  /// take_error() gives the result. Errors: std::errc::connection_refused, network_unreachable,
  /// resource_unavailable_try_again (the backlog of a Unix listener is full).
  [[nodiscard]] bool connect(const endpoint& peer) const;
  /// Ends one direction of the connection (sending ends with a FIN), or both. A connection that the
  /// peer has reset is not an error.
  void shutdown(shutdown_side side) const;

 private:
  unique_fd descriptor_;
};

/// Returns another descriptor of the socket (dup(2)), close-on-exec. Throws std::system_error.
socket copy_of(const socket_ref& source);

/// Makes two connected Unix sockets (socketpair(2)). Throws std::system_error.
std::pair<socket, socket> socket_pair(socket_type type = socket_type::stream);

/// The two ends of a pipe, as non-blocking descriptors without a loop.
struct pipe_pair {
  unique_fd reader;
  unique_fd writer;
};

/// Makes a pipe (pipe2(2)) for programs that watch or pass the descriptors themselves;
/// io::make_pipe() gives two streams on a loop. Throws std::system_error.
pipe_pair make_pipe();

namespace detail {

/// Shuts a socket down as socket::shutdown() does.
void shut_down(int socket, shutdown_side side);
/// Makes closing reset the connection instead of ending it.
void reset_when_closed(int socket) noexcept;
/// Binds `unbound`, of any type, to `local`. With `replaces_stale`, first removes the file of a
/// Unix socket that no longer exists, but not of one that is bound and does not listen yet. If
/// several processes replace the same file at once, one succeeds. Throws what socket::bind()
/// throws.
void bind_listener(const socket& target, const endpoint& local, bool replaces_stale);

}  // namespace detail
}  // namespace gyre::net
