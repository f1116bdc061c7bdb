// SPDX-License-Identifier: Apache-2.0
// tcp_server: serves TCP (or Unix stream) connections on one loop or several, by callbacks.
//
//     gyre::net::tcp_server server(loop, {.name = "echo"});
//     server.on_message([](gyre::net::tcp_connection& from, gyre::io::input& in) {
//       from.send(in.bytes());
//       in.consume_all();
//     });
//     server.listen(at);  // such as {gyre::net::ip_address::any_v6(), 7}
//     server.start();
//     loop.run();
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop_group.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/proxy_protocol.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/from_callback.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

/// Which loop of several gets a connection.
enum class accept_strategy : std::uint8_t {
  /// One loop accepts, and the loops get the connections in turn.
  round_robin,
  /// The same peer address always goes to the same loop.
  hash_of_peer,
  /// The loop with the fewest connections.
  least_connections,
  /// Every loop accepts its own, from a socket of its own (SO_REUSEPORT); the kernel distributes
  /// them by a hash of both addresses. The cheapest: a connection never changes threads. Unix
  /// sockets cannot share an address: for them, one loop accepts as with round_robin.
  every_loop,
};

/// How a server behaves; fixed when it is made.
struct tcp_server_options {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  std::string name = "tcp_server";
  accept_strategy strategy = accept_strategy::round_robin;
  connection_options connections = {};
  /// Connections at a time, at least one. Further ones wait in the kernel's queue (of length
  /// `backlog`) until one ends. Where several loops accept, a connection that was accepted at the
  /// same time as the last allowed one is closed again, and counted as refused.
  std::size_t max_connections = unlimited;
  int backlog = 4096;
  /// Connections at a time from one address (with IPv6, from one /64 network). Further ones are
  /// closed at once. With proxy_protocol the address is the one in the header. By default half as
  /// many as the process may have descriptors when the server is made (RLIMIT_NOFILE), so that no
  /// peer can take them all. `unlimited` is for servers behind a proxy that does not name clients.
  std::optional<std::size_t> connections_per_address = std::nullopt;
  /// Connections that one address (or network) may open within `accept_interval`; further ones are
  /// closed at once.
  std::size_t accepts_per_address = unlimited;
  std::chrono::nanoseconds accept_interval = std::chrono::seconds{1};
  /// Bytes that all connections may hold: waiting output and unconsumed input. Each loop has an
  /// equal part of it: half = memory_limit / loops / 2. As long as the connections of a loop hold
  /// no more than `half` together, each may hold any share. Beyond that, each may grow to half /
  /// (connections of the loop); one that would hold more ends with std::errc::no_buffer_space.
  ///
  /// Descriptors that wait to be sent, and files that send_file() holds open, count as well, but
  /// for one of each connection: memory_limit / (RLIMIT_NOFILE / 2) bytes each.
  std::size_t memory_limit = std::size_t{512} << 20;
  /// Bytes that may wait for the loops in calls of broadcast() and for_each(), where each call
  /// counts 1 KiB besides its bytes; further calls are refused.
  std::size_t broadcast_limit = std::size_t{4} << 20;
  /// SO_REUSEADDR: to listen again at once after a restart.
  bool reuse_address = true;
  /// SO_REUSEPORT: other servers, of this process or of others of the same user, may listen at the
  /// same endpoint, and the kernel distributes connections among them. Implied by every_loop.
  bool reuse_port = false;
  /// Set on each listening socket before it binds, besides the members here; connections inherit
  /// options such as the sizes of buffers, without a system call for each.
  socket_options sockets = {};
  /// IPV6_V6ONLY: an IPv6 listener does not take IPv4 connections.
  bool ipv6_only = false;
  /// How long accepting pauses when there are no descriptors or memory left (EMFILE, ENFILE,
  /// ENOBUFS, ENOMEM), at least 1 ms; doubles up to `accept_backoff_limit` while that goes on.
  /// Without descriptors, connections that wait, up to 64 for each pause, are accepted with one
  /// kept in reserve and closed, so that their peers know.
  std::chrono::nanoseconds accept_backoff = std::chrono::milliseconds{10};
  std::chrono::nanoseconds accept_backoff_limit = std::chrono::seconds{1};
  /// Connections of proxies that name their clients: for these peer_endpoint() is the client's, if
  /// the header has one, and context() is a proxy_header when on_connection is called.
  proxy_protocol_options proxy_protocol = {};
};

/// Counts since a server was made.
struct tcp_server_metrics {
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;        ///< accepted and closed: no descriptors, above a limit, or no
                                    ///< header of the PROXY protocol where one was due
  std::uint64_t limited = 0;        ///< of these, above a limit per address
  std::uint64_t accept_errors = 0;  ///< times that accepting had to pause
  std::size_t connections = 0;      ///< at present
  connection_metrics traffic = {};
};

/// Accepts connections and serves them on one or more loops.
///
/// A forked child shares the listening sockets and the loops' epoll instances. It should exec, or
/// first call event_loop::after_fork_in_child() of every loop; then it may destroy the server, or
/// use it while the parent destroys its own. Without that call, destroying it in the child takes
/// the sockets out of the parent's epoll too, and the parent accepts no more.
///
/// Thread-safety: every member may be called from any thread, also while the loops do not run yet;
/// commands take effect in the loops' turns. Handlers are set before start().
/// Lifetime: the loops must outlive the server. The destructor closes all connections without
/// calling on_close: to receive every call, call stop() first, and wait for its `done`. Once the
/// destructor has returned, no handler runs any more; it waits for handlers that are running on
/// other threads, so none of these may wait for the destroying thread. Connections of the calling
/// thread's loop are closed at once, the others in the next turns of their loops, or when these
/// loops are destroyed. Handlers are destroyed when the last loop has let go of them.
class tcp_server : public connection_handler_setters<tcp_server> {
 public:
  /// On one loop, several, or a thread's. Throws std::invalid_argument if there is no loop, and for
  /// options that make no sense: no connections allowed, a low_water that is not below high_water,
  /// an accept_interval that is not positive.
  explicit tcp_server(event_loop& loop, tcp_server_options options = {});
  template <loop_group Group>
  explicit tcp_server(Group& loops, tcp_server_options options = {})
      : tcp_server(loops.loops(), std::move(options)) {}
  template <class Loop>
  explicit tcp_server(basic_loop_thread<Loop>& thread, tcp_server_options options = {})
      : tcp_server(thread.loop(), std::move(options)) {}
  explicit tcp_server(std::vector<event_loop*> loops, tcp_server_options options = {});
  tcp_server(const tcp_server&) = delete;
  tcp_server& operator=(const tcp_server&) = delete;
  ~tcp_server();

  /// Accepting pauses; called once for each series of failures. The default prints a line. Throws
  /// std::logic_error after start(), as the setters of connection_handlers do.
  tcp_server& on_accept_error(move_only_function<void(std::error_code)> callback);

  /// Binds and listens, so that peers can connect; their connections are accepted after start().
  /// May be called for several endpoints. Port 0: the kernel chooses. A Unix socket's file that no
  /// process listens at any more is replaced; the file stays when the server ends. No effect after
  /// stop(). Throws std::system_error (EADDRINUSE, EACCES, EADDRNOTAVAIL …).
  void listen(const endpoint& at);
  /// Serves a socket that listens already: one that the process was started with, that another
  /// process has passed (see passed_sockets.hpp), or a copy of one that the program keeps to pass
  /// it on. Its own options stay as they are. With every_loop all loops accept from it, and chance
  /// decides which of them gets a connection; where several sockets share a port, the next function
  /// gives each loop its own. Throws std::system_error: std::errc::invalid_argument unless it is a
  /// listening stream socket, not_a_socket, bad_file_descriptor; then closes it.
  void listen(socket listening);
  /// As above, for the sockets of one endpoint (SO_REUSEPORT), for which local_endpoint() has one
  /// entry. Throws std::invalid_argument if there is none.
  void listen(std::vector<socket> listening);
  /// The endpoint of the listen() call number `index`. Throws std::out_of_range (a
  /// std::logic_error) if there was none.
  endpoint local_endpoint(std::size_t index = 0) const;
  /// Begins to accept. Throws std::logic_error if called twice.
  void start();

  /// Serves a connected stream socket that came from elsewhere (another process, a socket pair) as
  /// if it had been accepted. May be called before start(). The socket is made non-blocking, and a
  /// TCP socket gets the options of the server's connections. Throws std::system_error (ENOTCONN,
  /// ENOTSOCK), and then closes it.
  void adopt(unique_fd connection);

  /// Leaves new connections in the kernel's queue until resume_accepting().
  void pause_accepting();
  void resume_accepting();

  /// Stops for ever, and returns at once: accepts no more, closes all connections as
  /// tcp_connection::close() does, aborts those that are left after `timeout`, and then calls
  /// `done` on one of the loops. May be called before start(). A second call can make the end
  /// earlier, and its `done` is called too.
  void stop(std::chrono::nanoseconds timeout = std::chrono::seconds{5},
            move_only_function<void()> done = {});
  /// As above, with a point in time of the loops' clock.
  void stop(steady_time deadline, move_only_function<void()> done = {});
  /// stop() for coroutines: awaited, ends when the server has stopped.
  [[nodiscard]] auto stop_async(std::chrono::nanoseconds timeout = std::chrono::seconds{5}) {
    return from_callback(
        [this, timeout](completion<void> done) { stop(timeout, [done] { done.set_value(); }); });
  }
  [[nodiscard]] auto stop_async(steady_time deadline) {
    return from_callback(
        [this, deadline](completion<void> done) { stop(deadline, [done] { done.set_value(); }); });
  }

  /// Calls `function` with each connection, on its loop, later. False, and calls nothing, if more
  /// than `broadcast_limit` would wait for the loops.
  bool for_each(std::function<void(tcp_connection&)> function);
  /// Sends to all connections; the bytes are copied once. Returns as for_each().
  bool broadcast(std::span<const std::byte> bytes);
  bool broadcast(std::string_view text) { return broadcast(std::as_bytes(std::span(text))); }

  const std::string& name() const noexcept;
  tcp_server_metrics metrics() const noexcept;

 private:
  friend connection_handler_setters;
  class core;

  connection_handlers& settable_handlers();

  std::shared_ptr<core> core_;
};

}  // namespace gyre::net
