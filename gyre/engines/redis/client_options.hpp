// SPDX-License-Identifier: Apache-2.0
// client_options: the settings and counters of a Redis client.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/tls/tls_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace gyre::redis {

/// Options of a client.
struct client_options {
  /// For AUTH; without `user`, the server's default user.
  std::string user = {};
  /// The password for AUTH; empty: no login.
  std::string password = {};
  /// The name of the connection in the server's lists (CLIENT SETNAME); empty: none.
  std::string name = {};
  /// The number of the database (SELECT).
  unsigned database = 0;
  /// Encrypts. The server's certificate must be for the host that the client connects to.
  std::optional<tls::tls_context> tls = std::nullopt;

  /// Commands whose replies have not come; at least 1. A further call waits for its turn.
  std::size_t max_in_flight = 1024;
  /// Calls that wait for their turn or for a connection; at least 1. A further one fails at once
  /// with io::errc::waiting_limit.
  std::size_t max_waiting = 64 * 1024;
  /// Sessions that are open at the same time; at least 1. A further one is refused with
  /// errc::too_many_sessions.
  std::size_t max_sessions = 64;
  /// Bytes of a reply. A longer one ends the connection with errc::reply_too_large.
  std::size_t max_reply = std::size_t{64} << 20;

  /// Attempts to connect and log in, in a row, after which the calls that wait for them fail; at
  /// least 1.
  std::size_t max_connect_attempts = 5;
  /// Limit of one attempt, for each of the server's addresses, and then of each step of the login.
  duration connect_timeout = std::chrono::seconds{5};
  /// The delays between attempts: random, of at most `initial_delay` * 2^n and `longest_delay`.
  duration initial_delay = std::chrono::milliseconds{100};
  duration longest_delay = std::chrono::seconds{5};
  /// The number of times that call_idempotent() sends a command, the first included; at least 1.
  std::size_t max_attempts = 3;
  /// The connection is given up when a reply is due and nothing has come for this time, or up to
  /// half as much more. It must be longer than the slowest command of any caller.
  duration reply_timeout = std::chrono::seconds{10};
  /// After this time without a command the client sends PING, so that it notices a server that is
  /// gone. Sessions send none.
  duration ping_interval = std::chrono::seconds{30};
};

/// Counts of a client: now, and since it was constructed.
struct client_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t in_flight = 0;      ///< commands whose replies have not come
  std::size_t waiting = 0;        ///< calls that wait for their turn or for a connection
  std::size_t sessions = 0;       ///< sessions that are open or being opened
  std::uint64_t connections = 0;  ///< connections that were made
  std::uint64_t commands = 0;     ///< commands that calls have sent
  std::uint64_t retries = 0;      ///< commands sent again after a lost connection
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const client_metrics& counts);

}  // namespace gyre::redis
