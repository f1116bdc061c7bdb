// SPDX-License-Identifier: Apache-2.0
// reconnecting_client: one connection to a server, which coroutines share and which is replaced
// when it breaks.
//
//     gyre::net::reconnecting_client client(loop, server, log_in);  // task<lines> log_in(tcp_stream)
//
//     auto ask = [](lines& peer) { return ask_for(peer, "version"); };
//     std::string version = co_await client.call_idempotent(ask);
//     co_await client.stop();
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/net/detail/connector.hpp>
#include <gyre/net/detail/shared_connection.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/reconnecting_client_options.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <coroutine>
#include <memory>
#include <utility>

namespace gyre::net {

/// Keeps one connection to a server for the calls of coroutines, and replaces it when it breaks. A
/// call waits until there is a connection, and for its turn, first come, first served: one call at
/// a time, or as many as the option `concurrency` says, for pipelining.
///
/// Connecting: nothing runs by itself, calls connect. All calls that wait share the attempts, which
/// end when one succeeds, when `attempts` have failed, or when all these calls were stopped. The
/// delay before an attempt doubles with each failure, until a call has succeeded; so a server that
/// refuses, or accepts and hangs up, is not asked more often, however many calls there are. A
/// connection that the server closed between two calls is replaced at once. A call that returns
/// counts as a success, so it must throw when it finds the end of the stream.
///
/// After each connect the `handshake` makes the Connection that calls use: it logs in, subscribes
/// again, wraps the stream. No call uses the connection before.
///
/// Failure: after an exception of a call, a stop included, a reply may be under way, so the
/// connection is replaced, unless it has a `bool is_reusable() const` that returns true. Return
/// refusals of the server as values. For what a Connection may be see connection_pool. A Connection
/// that runs tasks of its own has an awaitable stop(), which the client awaits before it destroys
/// the Connection.
///
/// tcp_client is the counterpart with callbacks, which reconnects by itself and may keep output for
/// the next connection. For several connections at a time see connection_pool.
///
/// Thread-safety: the loop's thread; while none runs the loop, one thread at a time.
/// Lifetime: the loop must outlive the client. The destructor is close(); calls that it ends may
/// outlive the client. If the Connection has a stop(), await the client's stop() before you destroy
/// the client. After a move, call() of the source fails with io::errc::not_open.
/// Errors: the constructors throw std::invalid_argument for options that make no sense, and the
/// exceptions of host_port.
/// Complexity: a call costs four coroutine frames, and one system call to check the connection if
/// no other call uses it; waiting allocates nothing.
template <class Connection = tcp_stream>
class reconnecting_client {
  using core = detail::shared_connection<Connection>;

 public:
  using connection_type = Connection;

  /// Makes a client of a stream to `server`: an endpoint, or a text that host_port reads.
  template <std::convertible_to<host_port> Server>
    requires std::same_as<Connection, tcp_stream>
  reconnecting_client(event_loop& loop, const Server& server,
                      reconnecting_client_options options = {})
      : reconnecting_client(loop, host_port(server), detail::no_handshake(), options) {}
  /// Makes a client whose connections are the results of `handshake(tcp_stream)`, an awaitable.
  template <std::convertible_to<host_port> Server, detail::handshake_function Handshake>
    requires std::same_as<detail::connection_from<Handshake, tcp_stream>, Connection>
  reconnecting_client(event_loop& loop, const Server& server, Handshake handshake,
                      reconnecting_client_options options = {})
      : core_(make_core(loop, options, host_port(server), std::move(handshake),
                        options.connecting)) {}
  /// Makes a client of connections that `connect()`, an awaitable, makes: to a Unix socket, or
  /// through a proxy.
  template <detail::connect_function Connect>
    requires std::same_as<detail::connection_from<Connect>, Connection>
  reconnecting_client(event_loop& loop, Connect connect, reconnecting_client_options options = {})
      : core_(make_core(loop, options, std::move(connect))) {}
  reconnecting_client(reconnecting_client&&) noexcept = default;
  reconnecting_client& operator=(reconnecting_client&& other) noexcept {
    reconnecting_client replacement(std::move(other));
    std::swap(core_, replacement.core_);
    return *this;
  }
  ~reconnecting_client() {
    if (core_ != nullptr) core_->close();
  }

  /// Awaited, gives the result of `function(connection)`, an awaitable, which is called once. To
  /// limit the time: `with_timeout(client.call(…), 2s)`. The function, and the handshake, must not
  /// await another call, which would wait for its turn for ever.
  ///
  /// Errors: of `function`; if no connection could be made, std::system_error with the server, the
  /// number of attempts, and the code of the last; or the handshake's exception of another type,
  /// which is not retried unless is_retryable(). io::errc::waiting_limit; closed by close()
  /// meanwhile, not_open after it; wrong_thread.
  template <detail::use_function<Connection> F>
  [[nodiscard]] auto call(F function) {
    return core::call(core_, std::move(function), false);
  }
  /// Does what call() does, for a `function` that may be repeated: after a failure (see
  /// is_retryable()), it is called again with the next connection, at most as often as the option
  /// `uses` says.
  template <detail::use_function<Connection> F>
  [[nodiscard]] auto call_idempotent(F function) {
    return core::call(core_, std::move(function), true);
  }
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  std::suspend_never call(detail::misused_use_function<Connection> explained);
  std::suspend_never call_idempotent(detail::misused_use_function<Connection> explained);

  /// Stops running and waiting calls, and closes the connection. Idempotent.
  void close() noexcept {
    if (core_ != nullptr) core_->close();
  }
  /// Awaited, is close(), and waits until the calls and the connection have ended.
  [[nodiscard]] task<> stop() { return core::stop(core_); }

  [[nodiscard]] client_state state() const noexcept {
    return core_ != nullptr ? core_->state() : client_state::closed;
  }
  [[nodiscard]] reconnecting_client_metrics metrics() const noexcept {
    return core_ != nullptr ? core_->metrics() : reconnecting_client_metrics();
  }

 private:
  template <class... Source>
  static std::shared_ptr<core> make_core(event_loop& loop,
                                         const reconnecting_client_options& options,
                                         Source&&... source) {
    detail::check(options);
    return std::make_shared<core>(loop, options, std::forward<Source>(source)...);
  }

  std::shared_ptr<core> core_;
};

template <std::convertible_to<host_port> Server>
reconnecting_client(event_loop&, const Server&, reconnecting_client_options = {})
    -> reconnecting_client<tcp_stream>;
template <std::convertible_to<host_port> Server, detail::handshake_function Handshake>
reconnecting_client(event_loop&, const Server&, Handshake, reconnecting_client_options = {})
    -> reconnecting_client<detail::connection_from<Handshake, tcp_stream>>;
template <detail::connect_function Connect>
reconnecting_client(event_loop&, Connect, reconnecting_client_options = {})
    -> reconnecting_client<detail::connection_from<Connect>>;

}  // namespace gyre::net
