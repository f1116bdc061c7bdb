// SPDX-License-Identifier: Apache-2.0
// passed_socket: listening sockets from another process, for socket activation and hot restarts.
//
//     for (auto& one : gyre::net::sockets_from_environment()) server.listen(std::move(one.passed));
#pragma once

#include <gyre/base/detail/awaited_value.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/unix_stream.hpp>
#include <gyre/task/task.hpp>

#include <coroutine>
#include <span>
#include <string>
#include <vector>

namespace gyre::net {

/// A socket, and the name under which it is passed.
struct passed_socket {
  std::string name;
  socket passed;
};

/// Returns the sockets with which the process was started (sd_listen_fds(3): LISTEN_PID,
/// LISTEN_FDS, LISTEN_FDNAMES), in their order; none if the variables are not set, or name another
/// process. The sockets become close-on-exec and non-blocking, the latter for all processes that
/// share them. The variables are removed, so that a second call returns none.
///
/// Thread-safety: changes the environment; call it before other threads begin.
/// Errors: std::system_error: std::errc::bad_file_descriptor if one of the descriptors is not open
/// (those before it are then closed), std::errc::not_a_socket for a pipe or file (all are then
/// closed; the message has its name), std::errc::invalid_argument if the variables make no sense.
std::vector<passed_socket> sockets_from_environment();

/// Sends copies of sockets to another process, such as the successor of a server that restarts.
/// That process calls receive_sockets() at the other end of `stream`. Both processes can accept
/// from then on. Connections that wait to be accepted are not lost as long as one of the two has
/// the socket open.
///
/// Thread-safety: as io::stream.
/// Lifetime: `stream` and `sockets` must outlive the wait.
/// Errors: those of unix_stream::send_fds(); std::errc::invalid_argument for a name with a ':' or a
/// zero in it, names of more than 64 KiB in all, or more sockets than go with one message (253);
/// std::errc::not_a_socket. After a stop or an error, close the stream: half a message may have
/// been sent.
/// Complexity: allocates two coroutine frames.
[[nodiscard]] task<> send_sockets(unix_stream& stream, std::span<const passed_socket> sockets);
// This overload explains wrong arguments: see base/detail/awaited_value.hpp.
template <gyre::detail::unsafe_temporary Sockets>
GYRE_MISUSE(GYRE_UNSAFE_TEMPORARY)
std::suspend_never send_sockets(unix_stream& stream, Sockets&& sockets);
/// Receives the sockets that send_sockets() sends at the other end. tcp_server::listen() checks
/// that they listen.
///
/// Thread-safety: as io::stream.
/// Lifetime: `stream` must outlive the wait.
/// Errors: those of unix_stream::receive_fds(), std::errc::protocol_error if other data came, or
/// the stream ended, and std::errc::not_a_socket for another kind of descriptor, by the name in the
/// message; then all that came are closed. After a stop or an error, close the stream: half a
/// message may have been read.
[[nodiscard]] task<std::vector<passed_socket>> receive_sockets(unix_stream& stream);

/// Returns a socket that listens at `local`, for a program that keeps the socket to pass it on
/// later, and gives its server a copy (copy_of()). `options` are set before bind(), and connections
/// inherit them. A Unix socket's file that no process listens at any more is replaced. Throws
/// std::system_error as tcp_server::listen().
///
/// Complexity: a few system calls. To replace a Unix socket's file, the call may block for up to a
/// second, while another process has the folder locked.
socket listening_socket(const endpoint& local,
                        const socket_options& options = {.reuse_address = true},
                        int backlog = 4096);

}  // namespace gyre::net
