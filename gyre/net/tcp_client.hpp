// SPDX-License-Identifier: Apache-2.0
// tcp_client: a callback-driven, reconnecting client with one TCP (or Unix stream) connection.
//
//     gyre::net::tcp_client client(loop, server, {.reconnect = true});  // such as "localhost:7000"
//     client.on_connection([](gyre::net::tcp_connection& up) { up.send("hello\n"); });
//     client.on_message([](gyre::net::tcp_connection&, gyre::io::input& input) { … });
//     client.connect();
#pragma once

#include <gyre/base/detail/misuse.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/connection_handlers.hpp>
#include <gyre/net/connection_options.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::net {

/// Options of a tcp_client, fixed when it is constructed.
struct tcp_client_options {
  /// The name of the client, for logs.
  std::string name = "tcp_client";
  /// The options of the connection.
  connection_options connections = {};
  /// The time limit of one attempt to connect, not zero. For a host with several addresses, each
  /// address has this limit.
  duration connect_timeout = std::chrono::seconds{5};
  /// The delays that race_options documents, for connecting by name.
  duration attempt_delay = std::chrono::milliseconds{250};
  /// The time for which to wait for IPv6 addresses when those of IPv4 are known.
  duration resolution_delay = std::chrono::milliseconds{50};
  /// Whether to connect again after each failed attempt and each end of the connection (also by its
  /// close()), until disconnect(). The client first waits a random time of at most
  /// min(longest_delay, initial_delay * 2^(n-1)): exponential backoff with full jitter. n counts
  /// failed attempts and connections that received no byte or were refused (note_refusal()), in a
  /// row; any other connection sets n to 1.
  bool reconnect = false;
  /// The limit of the first delay between attempts: see `reconnect`.
  duration initial_delay = std::chrono::milliseconds{100};
  /// The largest limit of a delay between attempts: see `reconnect`.
  duration longest_delay = std::chrono::seconds{30};
  /// The maximum number of attempts in a row that may fail before the client gives up, the first
  /// included; at least 1.
  std::size_t max_attempts = std::numeric_limits<std::size_t>::max();
  /// The seed of the random delays: equal seeds give equal delays. Without a value, the seed is
  /// random.
  std::optional<std::uint64_t> seed = {};
  /// The maximum number of bytes that send() keeps while no connection can send. The next
  /// connection, to any server, sends them first; disconnect() drops them. With zero, send()
  /// refuses them.
  std::size_t keep_limit = 0;
  /// The local address to connect from. Without a value the kernel chooses it.
  /// connect_options::local documents port 0.
  endpoint local = {};
  /// A protocol below the callbacks, such as TLS (tls::client_transport()). An attempt has
  /// succeeded when its handshake is done.
  std::shared_ptr<const net::transport> transport = nullptr;
};

/// Counters since the construction of a client.
struct tcp_client_metrics {
  std::uint64_t attempts = 0;
  std::uint64_t failures = 0;   ///< failed attempts
  std::uint64_t connected = 0;  ///< successful attempts
  connection_metrics traffic = {};
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const tcp_client_metrics& counts);

/// A reconnecting client, which owns at most one connection at a time.
///
/// Thread-safety: every member except connection() may be called from any thread, also while the
/// loop does not run yet. On the loop's thread calls take effect at once; calls of other threads in
/// the loop's next turns, in their order. Waiting connect() and disconnect() calls with no send()
/// between them are merged: only the last is carried out, after one disconnect() if any of the
/// others was one.
/// Lifetime: the loop must outlive the client. The destructor closes the connection at once without
/// calling on_close. It waits for a handler that is running on another thread, which must not wait
/// for the destroying thread (deadlock); afterwards no handler runs any more. The loop destroys the
/// handlers, in a later turn or when it is destroyed itself.
/// Errors: go to on_connect_failed, and to on_close of the connection. Setters of handlers throw
/// std::logic_error after the first connect().
/// Complexity: see tcp_connection for a connection. Calls of other threads allocate.
class tcp_client : public connection_handler_setters<tcp_client> {
 public:
  /// Throws std::invalid_argument for options that make no sense.
  explicit tcp_client(event_loop& loop, tcp_client_options options = {});
  template <class Loop>
  explicit tcp_client(basic_loop_thread<Loop>& thread, tcp_client_options options = {})
      : tcp_client(thread.loop(), std::move(options)) {}
  /// Makes a client of `server`: an endpoint, or a text that host_port reads ("localhost:7000").
  /// Set the handlers, and call connect(). Throws also the exceptions of host_port.
  template <std::convertible_to<host_port> Server>
  tcp_client(event_loop& loop, const Server& server, tcp_client_options options = {})
      : tcp_client(host_port(server), loop, std::move(options)) {}
  template <class Loop, std::convertible_to<host_port> Server>
  tcp_client(basic_loop_thread<Loop>& thread, const Server& server, tcp_client_options options = {})
      : tcp_client(host_port(server), thread.loop(), std::move(options)) {}
  tcp_client(const tcp_client&) = delete;
  tcp_client& operator=(const tcp_client&) = delete;
  ~tcp_client();

  /// Sets the function that is called when an attempt to connect has failed with `reason`: an error
  /// of connect(), io::errc::connect_timeout, or a resolve_errc. `attempts` attempts have failed in
  /// a row; after the `last` the client gives up until the next connect(). The default prints a
  /// line to stderr, for the first attempt in a row and the last. The function is called in a turn
  /// of the loop, never within connect(); exceptions go to the loop's on_exception, and the client
  /// reconnects nevertheless.
  tcp_client& on_connect_failed(
      move_only_function<void(std::error_code reason, std::size_t attempts, bool last)> callback);
  // This overload explains wrong arguments: see base/detail/misuse.hpp.
  tcp_client& on_connect_failed(detail::misused_attempt_callback explained);

  /// Connects to the server that the constructor got. Throws std::logic_error if it got none.
  void connect();
  /// Connects to `server`, now and (with `reconnect`) whenever the connection has ended, until
  /// disconnect(). No effect if the client is connected to `server` already. A connection to
  /// another server is closed first, and an attempt under way dropped; kept bytes go to `server`.
  void connect(const endpoint& server);
  /// Connects to a host: looks up its name before each attempt, and races its addresses as
  /// net::connect() does, beginning with the addresses that are known first (see
  /// `resolution_delay`). After an address whose handshake fails, the next address is tried; while
  /// a handshake is under way, no other address is tried. `names` must be on the client's loop, and
  /// must outlive the client.
  void connect(resolver& names, std::string host, service port);
  /// Connects to a host_port, or to a text that host_port reads. Throws also the exceptions of
  /// host_port. Without `names` the client makes a resolver of its own when it first needs one, and
  /// keeps it; a failure to make the resolver is reported as the failure of an attempt.
  void connect(resolver& names, const host_port& server);
  void connect(const host_port& server);
  template <std::convertible_to<std::string_view> Text>
  void connect(const Text& server) {
    connect(host_port(server));
  }
  /// Closes the connection as tcp_connection::close() does, or drops the attempt to connect, and
  /// does not connect again. Drops kept bytes. Idempotent.
  void disconnect();

  /// Sends as tcp_connection::send() does. Without a connection, keeps the bytes if `keep_limit`
  /// allows; otherwise returns false. From another thread: copies the bytes for the loop, and
  /// returns false only if more than connection_options::output_limit would wait for the loop,
  /// where each call counts 1 KiB besides its bytes; the loop may still refuse them, unnoticed.
  bool send(std::span<const std::byte> bytes);
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }

  /// Notes that the server has refused to serve the present connection, as one that is starting
  /// does: the next delay grows although bytes have come. Called on the loop's thread only, while
  /// there is a connection or in its on_close().
  void note_refusal() noexcept;

  /// Returns the present connection, or null. Called on the loop's thread only.
  tcp_connection* connection() noexcept;
  bool connected() const noexcept;
  event_loop& loop() const noexcept;
  const std::string& name() const noexcept;
  tcp_client_metrics metrics() const noexcept;

 private:
  friend connection_handler_setters;
  class core;

  tcp_client(host_port server, event_loop& loop, tcp_client_options options);

  connection_handlers& settable_handlers();

  std::shared_ptr<core> core_;
};

}  // namespace gyre::net
