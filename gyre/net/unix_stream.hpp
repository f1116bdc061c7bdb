// SPDX-License-Identifier: Apache-2.0
// unix_stream, unix_listener: Unix stream sockets for coroutines, with SCM_RIGHTS.
//
//     gyre::net::unix_listener listener(loop, at);  // such as "unix:/run/service.sock"
//     auto peer = co_await listener.accept();
//     auto message = co_await peer.receive_fds(room);
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/net/detail/listener.hpp>
#include <gyre/net/detail/message_with_fds.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gyre::net {

/// Received bytes with descriptors.
struct bytes_and_fds {
  std::size_t size = 0;  ///< 0: the end of the stream
  std::vector<unique_fd> fds;
};

/// The process that set up the other end of a Unix socket, by connect(2), listen(2) or
/// socketpair(2), as it was then (SO_PEERCRED). The process may have ended since, or passed the
/// socket to another.
struct peer_credentials {
  ::pid_t process;
  ::uid_t user;
  ::gid_t group;
};

/// A connected Unix stream socket, which also passes descriptors and credentials.
/// Thread-safety, Lifetime, Errors: as socket_stream.
class unix_stream : public socket_stream {
 public:
  /// Constructs a closed stream.
  unix_stream() noexcept = default;
  /// Serves a connected, non-blocking socket on `loop`. Throws std::system_error if the loop cannot
  /// watch the socket, and then closes it.
  unix_stream(event_loop& loop, socket connection)
      : socket_stream(loop, std::move(connection), io::handle_kind::socket) {}
  unix_stream(event_loop& loop, unique_fd connection)
      : unix_stream(loop, socket(std::move(connection))) {}

  /// The maximum number of descriptors in one message.
  static constexpr std::size_t max_fds = detail::message_with_fds::max_fds;

  /// Writes at least one of `bytes`, with copies of all `fds` (SCM_RIGHTS), and returns the count
  /// of bytes; write the rest without descriptors. The caller keeps the descriptors.
  ///
  /// Lifetime: `bytes` and `fds` must outlive the wait; the descriptors must stay open until then.
  /// Errors: std::errc::invalid_argument for no bytes or more than max_fds descriptors, and those
  /// of writing.
  /// Complexity: allocates one coroutine frame.
  [[nodiscard]] task<std::size_t> send_fds(std::span<const std::byte> bytes,
                                           std::span<const int> fds);
  /// Waits for bytes or the end of the stream; reads up to `buffer.size()` bytes, and the
  /// descriptors that came with them (close-on-exec), which other read operations close.
  ///
  /// Errors: those of reading; std::errc::too_many_files_open if the process could not take all
  /// descriptors: then the bytes are lost, and the descriptors closed.
  /// Complexity: allocates one coroutine frame.
  [[nodiscard]] task<bytes_and_fds> receive_fds(std::span<std::byte> buffer);

  [[nodiscard]] peer_credentials credentials() const;

 private:
  friend detail::stream_maker;
  using socket_stream::socket_stream;
};

/// Makes two streams that are connected to each other, both on `loop`. Throws std::system_error.
std::pair<unix_stream, unix_stream> stream_pair(event_loop& loop);

/// Options of a unix_listener.
struct unix_listener_options {
  /// The number of connections that the kernel keeps until they are accepted.
  int backlog = SOMAXCONN;
  /// Whether to remove the socket file of a listener that no longer exists. If several processes do
  /// so at once, one succeeds.
  bool replace_stale = true;
};

/// A listening Unix socket on a loop, with the members of tcp_listener: accept(), which gives a
/// unix_stream, accept_socket(), close() and the others. The socket file stays when the listener is
/// closed.
/// Thread-safety, Lifetime, Errors: as tcp_listener.
class unix_listener : public detail::listener<unix_stream> {
 public:
  /// Binds and listens. Throws std::system_error: std::errc::address_in_use, permission_denied,
  /// no_such_file_or_directory, too_many_files_open.
  ///
  /// Complexity: a few system calls. To replace a socket file, the call may block for up to a
  /// second, while another process has the folder locked.
  unix_listener(event_loop& loop, const endpoint& local, const unix_listener_options& options = {});
  /// Serves a non-blocking socket that listens already.
  unix_listener(event_loop& loop, socket listening_socket)
      : listener(loop, std::move(listening_socket)) {}
};

/// Connects to the Unix listener at `remote`. The stream is served by `loop`, or by the loop that
/// the coroutine runs on. Thread-safety, Complexity: those of connect(). Errors:
/// std::errc::connection_refused, also when the listener's backlog is full;
/// no_such_file_or_directory; and those of connect().
[[nodiscard]] task<unix_stream> connect_unix(endpoint remote);
[[nodiscard]] task<unix_stream> connect_unix(event_loop& loop, endpoint remote);

}  // namespace gyre::net
