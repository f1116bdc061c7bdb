// SPDX-License-Identifier: Apache-2.0
// system_sockets: the system calls of sockets, apart from the requests of a loop's backend. A
// simulated world replaces these functions at link time.
//
//     const io::result sent = system::send_without_waiting(fd, bytes);
//     if (!sent && !sent.would_block()) report(sent.error());
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

namespace gyre::net::detail::system {

// Sockets are made non-blocking and close-on-exec. A call that a signal interrupts is repeated.
//
// Errors: errno's number, as the unexpected value or as a result; errno has it as well.
// Thread-safety: any thread.
// Complexity: one system call each, unless said otherwise.

using opened_descriptor = io::detail::system::expected<unique_fd>;

/// Opens a socket (socket(2)).
opened_descriptor open_socket(int family, int type, int protocol = 0) noexcept;
/// Opens two connected Unix sockets.
io::result open_socket_pair(int type, std::pair<unique_fd, unique_fd>& ends) noexcept;
io::result bind(int socket, const endpoint& local) noexcept;
io::result listen(int socket, int backlog) noexcept;
/// Begins a connection, or sets a datagram socket's peer. EINPROGRESS: the attempt is under way,
/// which no signal interrupts.
io::result connect(int socket, const sockaddr* peer, socklen_t size) noexcept;
inline io::result connect(int socket, const endpoint& peer) noexcept {
  return system::connect(socket, peer.data(), peer.size());
}
/// Takes the next connection of a listener.
opened_descriptor accept(int listener) noexcept;
io::result shut_down(int socket, int directions) noexcept;
io::result read_local_endpoint(int socket, endpoint& local) noexcept;
io::result read_peer_endpoint(int socket, endpoint& peer) noexcept;

/// An option of setsockopt(2), with its name for errors.
struct socket_option {
  int level;
  int number;
  const char* name;
};

inline constexpr socket_option so_acceptconn{SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN"};
inline constexpr socket_option so_keepalive{SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE"};
inline constexpr socket_option so_linger{SOL_SOCKET, SO_LINGER, "SO_LINGER"};
inline constexpr socket_option so_peercred{SOL_SOCKET, SO_PEERCRED, "SO_PEERCRED"};
inline constexpr socket_option so_type{SOL_SOCKET, SO_TYPE, "SO_TYPE"};
inline constexpr socket_option tcp_nodelay{IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY"};
inline constexpr socket_option udp_gro{IPPROTO_UDP, UDP_GRO, "UDP_GRO"};
inline constexpr socket_option udp_segment{IPPROTO_UDP, UDP_SEGMENT, "UDP_SEGMENT"};

io::result set_option(int socket, const socket_option& option, const void* value,
                      socklen_t size) noexcept;
io::result read_option(int socket, const socket_option& option, void* value,
                       socklen_t size) noexcept;
template <class T>
io::result set_option(int socket, const socket_option& option, const T& value) noexcept {
  return set_option(socket, option, &value, sizeof value);
}
/// Returns the value of an option. Throws std::system_error with the option's name.
template <class T = int>
T get_option(int socket, const socket_option& option) {
  T value{};
  const io::result outcome = read_option(socket, option, &value, sizeof value);
  if (!outcome) throw std::system_error(outcome.error(), option.name);
  return value;
}

// The functions below fail with EAGAIN instead of waiting, even on a blocking socket.

io::result receive_without_waiting(int socket, std::span<std::byte> buffer) noexcept;
/// Receives as recvfrom(2) does.
io::result receive_without_waiting(int socket, std::span<std::byte> buffer, sockaddr* sender,
                                   socklen_t* sender_size) noexcept;
io::result send_without_waiting(int socket, std::span<const std::byte> bytes) noexcept;
io::result send_without_waiting(int socket, const msghdr& message) noexcept;
/// Returns the number of messages that were sent.
io::result send_without_waiting(int socket, std::span<mmsghdr> messages) noexcept;
/// Returns the number of bytes that a connection's peer has not acknowledged, a FIN counting as
/// one; 0 if the number is unknown.
std::size_t unacknowledged_bytes(int socket) noexcept;

/// Blocks the thread until the socket has one of `events` (poll(2)); returns 0 if `deadline` comes
/// first.
io::result wait_until_ready(int socket, short events, steady_time deadline) noexcept;

// The functions below accept descriptors of any kind.

io::result set_close_on_exec(int fd) noexcept;
/// Locks a file or folder against other lock_file() calls (flock(2)) until it is closed. Blocks the
/// thread while the file is locked, but returns without the lock after `limit`.
void lock_file(int file, std::chrono::milliseconds limit) noexcept;
/// Returns the limit of open descriptors of the process; 0: no limit.
std::size_t max_descriptors() noexcept;

}  // namespace gyre::net::detail::system
