// SPDX-License-Identifier: Apache-2.0
// tcp_server: a callback-driven TCP (or Unix stream) server on one loop or several.
//
//     gyre::net::tcp_server server(loop, at, {.name = "echo"});  // such as ":7000"
//     server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
//       connection.send(input.bytes());
//       input.consume_all();
//     });
//     server.start();
//     loop.run();
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop_group.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/net/connection_handlers.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/released_connection.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/tcp_server_options.hpp>
#include <gyre/task/from_callback.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

namespace detail {
class server_core;
}  // namespace detail

/// A callback-driven server of stream connections, which it accepts and owns.
///
/// A forked child shares the listening sockets and the loops' epoll instances. It should exec, or
/// first call event_loop::after_fork_in_child() of every loop; then it may destroy the server, or
/// use it while the parent destroys its own. Without that call, the child's destructor takes the
/// sockets out of the parent's epoll, too.
///
/// Thread-safety: every member may be called from any thread, also while the loops do not run yet.
/// listen() and the setters take effect at once, other commands in the loops' next turns.
/// Lifetime: the loops must outlive the server. The destructor waits for handlers that are running
/// on other threads, so none of these may wait for the destroying thread (deadlock); afterwards no
/// handler runs any more. It calls neither on_close nor the `done` of a stop() under way: to
/// receive every on_close, call stop() and wait for `done` before. Connections of the calling
/// thread's loop are closed at once, the others in the next turns of their loops, or when these
/// loops are destroyed. Handlers are destroyed when the last loop has released them.
/// Errors: thrown by the members that say so; those of a connection go to its on_close.
/// Complexity: see tcp_connection for a connection. A command costs a post to each loop that it
/// concerns; metrics() reads counters of each loop, without a lock.
class tcp_server : public connection_handler_setters<tcp_server> {
 public:
  /// Makes a server on one loop, on several loops, or on the loop of a thread. Throws
  /// std::invalid_argument if there is no loop, and for options that make no sense: max_connections
  /// of zero, a low_water that is not below high_water, a negative timeout, an accept_interval that
  /// is not positive.
  explicit tcp_server(event_loop& loop, tcp_server_options options = {});
  template <loop_group Group>
  explicit tcp_server(Group& loops, tcp_server_options options = {})
      : tcp_server(loops.loops(), std::move(options)) {}
  template <class Loop>
  explicit tcp_server(basic_loop_thread<Loop>& thread, tcp_server_options options = {})
      : tcp_server(thread.loop(), std::move(options)) {}
  explicit tcp_server(std::vector<event_loop*> loops, tcp_server_options options = {});
  /// Makes a server that listens at `local`: an endpoint, or a text that endpoint::parse() reads
  /// (":7000"). Throws also the exceptions of listen(), and std::system_error for another text.
  template <std::convertible_to<endpoint> Address>
  tcp_server(event_loop& loop, const Address& local, tcp_server_options options = {})
      : tcp_server(loop, std::move(options)) {
    listen(local);
  }
  template <loop_group Group, std::convertible_to<endpoint> Address>
  tcp_server(Group& loops, const Address& local, tcp_server_options options = {})
      : tcp_server(loops.loops(), std::move(options)) {
    listen(local);
  }
  template <class Loop, std::convertible_to<endpoint> Address>
  tcp_server(basic_loop_thread<Loop>& thread, const Address& local, tcp_server_options options = {})
      : tcp_server(thread.loop(), std::move(options)) {
    listen(local);
  }
  tcp_server(const tcp_server&) = delete;
  tcp_server& operator=(const tcp_server&) = delete;
  ~tcp_server();

  /// Sets the function that is called when accepting pauses (see accept_backoff): on the accepting
  /// loop, once for each series of failures; its exceptions go to the loop's on_exception, and
  /// accepting resumes after the pause. The default prints a line to stderr, at most 10 at once and
  /// 1 per second. Throws std::logic_error after start().
  tcp_server& on_accept_error(move_only_function<void(std::error_code)> callback);
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  tcp_server& on_accept_error(detail::misused_error_callback explained);

  /// Sets the function that is called when the server stops, and all that had arrived for the
  /// connection was delivered: once for each connection, on its loop, also for connections that
  /// begin later or are closing. The function closes the connection, or leaves it open until the
  /// response is sent; at the end of the timeout the server closes it. Without this function the
  /// connection is closed. Throws std::logic_error after start().
  tcp_server& on_stopping(move_only_function<void(tcp_connection&)> callback);
  tcp_server& on_stopping(detail::misused_connection_callback explained);

  /// Binds and listens, so that peers can connect; connections are accepted after start(). May be
  /// called for several endpoints, also after start(); no effect after stop(). Port 0: the kernel
  /// chooses. A Unix socket's file that no process listens at any more is replaced; the file stays
  /// when the server ends. Throws std::system_error: std::errc::address_in_use, permission_denied.
  ///
  /// Complexity: a few system calls for each socket. To replace a Unix socket's file, the call may
  /// block for up to a second, while another process has the folder locked.
  void listen(const endpoint& local);
  /// Serves a socket that listens already, with the options that it has: one that the process was
  /// started with, that another process has passed (see passed_sockets.hpp), or a copy of one that
  /// the program keeps to pass it on. With every_loop all loops accept from it, and chance decides
  /// which of them gets a connection. Throws std::system_error: std::errc::invalid_argument unless
  /// it is a listening stream socket, not_a_socket, bad_file_descriptor; then closes it.
  void listen(socket listener);
  /// Serves several listening sockets of one endpoint (SO_REUSEPORT), spread over the accepting
  /// loops, with one entry in local_endpoint(). Throws std::invalid_argument if there are none.
  void listen(std::vector<socket> listeners);
  /// Returns the endpoint of call number `index`, counted from 0, of those calls of listen() that
  /// had an effect. Throws std::out_of_range (a std::logic_error) if there was none.
  endpoint local_endpoint(std::size_t index = 0) const;
  /// Begins to accept. Throws std::logic_error if called twice.
  void start();

  /// Serves a connected stream socket that the server has not accepted (from another process, or of
  /// a socket pair) like an accepted one. May be called before start(). The socket is made
  /// non-blocking, and a TCP socket gets no_delay and keep_alive of connection_options. Throws
  /// std::system_error (std::errc::not_connected, not_a_socket), and then closes it.
  void adopt(unique_fd connection);
  /// Serves a connection as adopt(connection) does, but as one of the client at `peer`, an IP
  /// endpoint: if another process has accepted it for that client, and for tests.
  void adopt(unique_fd connection, const endpoint& peer);

  /// Serves a connection that another owner has released: its layer is open, and the bytes that
  /// were received come first. Neither `transport` nor `proxy_protocol` of the options applies.
  /// Throws what adopt(connection) throws.
  void adopt(released_connection connection);

  /// Leaves new connections in the kernel's queue until resume_accepting(). Idempotent.
  void pause_accepting();
  void resume_accepting();

  /// Graceful stop, for ever, which loses nothing that has arrived. Calls `done` on the first of
  /// the loops when all connections have ended, unless the server has been destroyed: on another
  /// thread perhaps before stop() returns. `done` may destroy the server. Returns at once. May be
  /// called before start(). A second call can make the end earlier; the `done` of each call is
  /// called.
  /// - Sockets of listen(endpoint): accepts the connections in their queues, then closes them. A
  ///   socket that was passed in, and any while accepting is paused, is only closed: its queue is
  ///   left to others that have the socket.
  /// - Handshakes continue. A new connection is awaited for its first bytes, and one with an
  ///   incomplete message for the rest, for up to `stop_grace`.
  /// - A connection is closed, as by close() of tcp_connection, when all that has arrived for it
  ///   was delivered to on_message; see also on_stopping(). A handler that sends its answer later
  ///   pauses reading until then: the connection is closed after resume_reading().
  /// - After `timeout`, connections that are left are closed by close(0).
  void stop(duration timeout = std::chrono::seconds{5}, move_only_function<void()> callback = {});
  /// Stops like stop(timeout), with a point in time on the clock of the loops.
  void stop(time_point deadline, move_only_function<void()> callback = {});
  /// Stops like stop(). Awaiting the result waits until the server has stopped. Throws
  /// std::future_errc::broken_promise if the server is destroyed first.
  [[nodiscard]] auto stop_async(duration timeout = std::chrono::seconds{5}) {
    return from_callback([this, timeout](completion<void> callback) {
      stop(timeout, [callback] { callback.set_value(); });
    });
  }
  [[nodiscard]] auto stop_async(time_point deadline) {
    return from_callback([this, deadline](completion<void> callback) {
      stop(deadline, [callback] { callback.set_value(); });
    });
  }

  /// Calls `function` with each connection, in its loop's next turn, at the same time on several
  /// loops; exceptions are as those of on_message. Returns false, and calls nothing, if more than
  /// `broadcast_limit` would wait for the loops.
  bool for_each(std::function<void(tcp_connection&)> function);
  /// Sends to each connection as tcp_connection::send() does, which ends connections above their
  /// output_limit. The bytes are copied once. Returns what for_each() returns.
  bool broadcast(std::span<const std::byte> bytes);
  bool broadcast(std::string_view text) { return broadcast(std::as_bytes(std::span(text))); }

  const std::string& name() const noexcept;
  tcp_server_metrics metrics() const noexcept;

 private:
  friend connection_handler_setters;

  connection_handlers& settable_handlers();

  std::shared_ptr<detail::server_core> core_;
};

}  // namespace gyre::net
