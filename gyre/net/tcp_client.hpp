// SPDX-License-Identifier: Apache-2.0
// tcp_client: keeps one TCP (or Unix stream) connection to a server, by callbacks, and connects
// again when it is lost.
//
//     gyre::net::tcp_client client(loop, {.reconnect = true});
//     client.on_connection([](gyre::net::tcp_connection& up) { up.send("hello\n"); });
//     client.on_message([](gyre::net::tcp_connection&, gyre::io::input& in) { … });
//     client.connect(server);  // such as *gyre::net::endpoint::parse("127.0.0.1:7")
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <chrono>
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

/// How a client behaves; fixed when it is made.
struct tcp_client_options {
  std::string name = "tcp_client";
  connection_options connections = {};
  /// How long one attempt to connect may take, not zero; for a host with several addresses, an
  /// attempt at one of them.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds{5};
  /// As race_options::resolution_delay, when it connects by name.
  std::chrono::nanoseconds resolution_delay = std::chrono::milliseconds{50};
  /// Whether to connect again when an attempt failed or the connection was lost. After n failures
  /// in a row the client waits a random time between zero and min(longest_delay, initial_delay *
  /// 2^(n-1)): exponential backoff with full jitter (Brooker, "Exponential backoff and jitter",
  /// 2015), so that many clients do not come back all at once.
  bool reconnect = false;
  std::chrono::nanoseconds initial_delay = std::chrono::milliseconds{100};
  std::chrono::nanoseconds longest_delay = std::chrono::seconds{30};
  /// Attempts in a row that may fail before it gives up, the first one included; at least one.
  std::size_t most_attempts = std::numeric_limits<std::size_t>::max();
  /// Seed of the random delays; the same seed gives the same delays. None: a random one.
  std::optional<std::uint64_t> seed = {};
  /// Bytes that send() keeps while there is no connection, to be sent first on the next one. Zero:
  /// send() refuses them.
  std::size_t keep_limit = 0;
  /// The local address to connect from; none: the kernel chooses.
  endpoint local = {};
};

/// Counts since a client was made.
struct tcp_client_metrics {
  std::uint64_t attempts = 0;
  std::uint64_t failures = 0;  ///< of attempts
  std::uint64_t connected = 0;
  connection_metrics traffic = {};
};

/// Keeps one connection to a server.
///
/// Thread-safety: every member may be called from any thread, also while the loop does not run yet.
/// On the loop's thread calls take effect at once; calls of other threads in the loop's next turns,
/// in the order of the calls. Calls of connect() and disconnect() that still wait for the loop,
/// with no send() between them, are merged: the loop carries out the last one only, after one
/// disconnect() if there is any among the others.
/// Lifetime: the loop must outlive the client. The destructor closes the connection at once without
/// calling on_close; once it has returned, no handler runs any more, as with tcp_server.
class tcp_client : public connection_handler_setters<tcp_client> {
 public:
  /// Throws std::invalid_argument for options that make no sense.
  explicit tcp_client(event_loop& loop, tcp_client_options options = {});
  template <class Loop>
  explicit tcp_client(basic_loop_thread<Loop>& thread, tcp_client_options options = {})
      : tcp_client(thread.loop(), std::move(options)) {}
  tcp_client(const tcp_client&) = delete;
  tcp_client& operator=(const tcp_client&) = delete;
  ~tcp_client();

  // The setters of connection_handlers throw std::logic_error after the first connect(). A
  // handler's exception goes to the loop's on_exception, and the client reconnects all the same.

  /// An attempt to connect has failed: ECONNREFUSED (also if the kernel connected the socket to
  /// itself, as it can where nothing listens at a local port), ETIMEDOUT …, ENOMEM. `attempts` have
  /// failed in a row; with `last` there will be none until the next connect(). The default prints a
  /// line, for the first in a row and the last.
  tcp_client& on_connect_failed(
      move_only_function<void(std::error_code why, std::size_t attempts, bool last)> callback);

  /// Connects to `server`, now and (with `reconnect`) whenever the connection is lost, until
  /// disconnect(). A connection or attempt to another server is ended first.
  void connect(const endpoint& server);
  /// As above, for a host: looks up its name before each attempt, and tries its addresses one after
  /// the other, IPv6 and IPv4 in turns. A name server that is silent about one of them holds
  /// nothing up (see `resolution_delay`). `names` belongs to the client's loop, and must outlive
  /// the client.
  void connect(resolver& names, std::string host, service port);
  /// Closes the connection as tcp_connection::close() does, or ends the attempt to connect, and
  /// does not connect again. Drops kept bytes. Idempotent.
  void disconnect();

  /// Sends as tcp_connection::send() does. Without a connection, keeps the bytes if `keep_limit`
  /// allows; otherwise returns false. From another thread: copies the bytes for the loop, and
  /// returns false only if more than connection_options::output_limit would wait for it, where each
  /// call counts 1 KiB besides its bytes.
  bool send(std::span<const std::byte> bytes);
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }

  /// The present connection, or null. The loop's thread only.
  tcp_connection* connection() noexcept;
  /// Any thread.
  bool connected() const noexcept;
  event_loop& loop() const noexcept;
  const std::string& name() const noexcept;
  tcp_client_metrics metrics() const noexcept;

 private:
  friend connection_handler_setters;
  class core;

  connection_handlers& settable_handlers();

  std::shared_ptr<core> core_;
};

}  // namespace gyre::net
