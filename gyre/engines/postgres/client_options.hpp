// SPDX-License-Identifier: Apache-2.0
// client_options: the settings and counters of a PostgreSQL client.
//
//     auto options = gyre::postgres::client_options::parse(
//         "postgresql://app:secret@db.example.org/shop?sslmode=verify-full");
//     options.max_open = 4;
//     gyre::postgres::client db(loop, options);
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/tls/tls_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::postgres {

/// Whether a connection is encrypted. There is no mode that falls back to plain text, as an
/// attacker between client and server could choose it.
enum class encryption {
  off,
  require,      ///< encrypted, and the server's certificate is not verified
  verify_full,  ///< encrypted, and the certificate must be for the server's name
};

/// The way in which the encryption begins.
enum class tls_start {
  negotiated,  ///< TLS begins after SSLRequest, which every server knows
  direct,      ///< at once, which servers know since PostgreSQL 17
};

/// Whether a password's proof is bound to the TLS connection (SCRAM-SHA-256-PLUS).
enum class channel_binding { off, prefer, require };

/// Options of a client.
struct client_options {
  /// Reads a connection URL: "postgresql://user:password@host:port/database?name=value&…", also
  /// with "postgres://". Every part but the scheme may be missing, and is percent-decoded. The
  /// host may be "[::1]"; for a Unix socket write host=/run/postgresql among the names.
  ///
  /// | name | value |
  /// |---|---|
  /// | host, port, user, password, dbname | as the part of the URL |
  /// | sslmode | disable, require, verify-full; others fall back to plain text, or verify half |
  /// | sslrootcert | a file of certificates for `verify-full`; "system", the default |
  /// | sslcert, sslkey | files of the client's certificate and key |
  /// | sslnegotiation | postgres, direct |
  /// | channel_binding | disable, prefer, require |
  /// | application_name, options | of the session |
  /// | connect_timeout | in seconds |
  /// | statement_timeout | in milliseconds |
  ///
  /// Several hosts, service files, ~/.pgpass and the environment (PGHOST …) are not read.
  ///
  /// Errors: std::invalid_argument with what is wrong and never with the password;
  /// std::system_error of host_port and of the certificates' files.
  [[nodiscard]] static client_options parse(std::string_view url);

  /// The server: "localhost:5432", "unix:/run/postgresql/.s.PGSQL.5432".
  net::host_port server = "localhost:5432";
  /// The role. The user. An empty name is refused, because the operating system's user is not
  /// guessed.
  std::string user = {};
  /// The password of the role, for servers that ask for one.
  std::string password = {};
  /// The database; empty: the one that has the user's name.
  std::string database = {};
  /// The name of the client in the server's lists (pg_stat_activity).
  std::string application_name = "gyre";
  /// Settings of each connection, such as {"TimeZone", "UTC"} or {"search_path", "shop"}.
  std::vector<std::pair<std::string, std::string>> settings = {};

  postgres::encryption encryption = encryption::off;
  postgres::tls_start tls_start = tls_start::negotiated;
  postgres::channel_binding channel_binding = channel_binding::prefer;
  /// The certificates; none: the system's for verify_full.
  std::optional<tls::tls_context> tls = std::nullopt;
  /// Whether the password may be sent as it is, or as MD5, if the server asks for that. An
  /// attacker's server would learn it.
  bool allows_cleartext_password = false;
  /// Whether the password may be sent as MD5: see `allows_cleartext_password`.
  bool allows_md5_password = false;

  /// Connections on which all coroutines' statements outside of transactions are sent, in the
  /// order in which they come ("pipelining"); at least 1. A further one is opened when each of the
  /// others has `pipeline_depth` statements in flight.
  std::size_t max_shared = 2;
  std::size_t pipeline_depth = 4;
  /// The number of connections for transactions, streams, copies and sessions, each for one of them
  /// at a time; at least 1. Further calls wait for a connection.
  std::size_t max_open = 8;
  /// The time after which an idle one of these connections is closed.
  duration idle_timeout = std::chrono::minutes{1};
  /// The age after which none of these connections is used again.
  duration max_lifetime = std::chrono::minutes{30};

  /// Statements in flight on a shared connection; at least 1. A further call waits for its turn.
  std::size_t max_in_flight = 256;
  /// Calls that wait for their turn or for a connection; at least 1. A further one fails at once
  /// with io::errc::waiting_limit.
  std::size_t max_waiting = 16 * 1024;
  /// Prepared statements that a connection keeps: those used last. At least 1.
  std::size_t max_prepared = 256;
  /// Bytes of a message of the server. A larger one ends the connection with
  /// errc::message_too_large.
  std::size_t max_message = std::size_t{64} << 20;
  /// The limit of a result's bytes: see statement_options.
  std::size_t max_result = std::size_t{64} << 20;

  /// Attempts to connect in a row, after which the calls that wait for them fail; at least 1.
  std::size_t max_connect_attempts = 5;
  /// Limit of one attempt, for each of the server's addresses.
  duration connect_timeout = std::chrono::seconds{5};
  /// The delays between attempts: random, of at most `initial_delay` * 2^n and `longest_delay`.
  duration initial_delay = std::chrono::milliseconds{100};
  duration longest_delay = std::chrono::seconds{5};
  /// The limit of a call's time that has none of its own: see statement_options. duration::max():
  /// none.
  duration statement_timeout = duration::max();
  /// A connection is given up when a reply is due and nothing has come for this time. Zero sets no
  /// limit, as a statement may work for hours; keep-alive probes then notice lost connections.
  duration reply_timeout = duration::zero();
  /// After this time without a statement a shared connection is checked.
  duration ping_interval = std::chrono::seconds{30};
};

/// Counts of a client: now, and since it was constructed.
struct client_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t shared = 0;          ///< shared connections that are open
  std::size_t open = 0;            ///< other connections, idle or taken
  std::size_t idle = 0;            ///< open connections that wait for use
  std::size_t in_flight = 0;       ///< statements on shared connections whose replies have not come
  std::size_t waiting = 0;         ///< calls that wait for their turn or for a connection
  std::uint64_t statements = 0;    ///< statements that calls have sent
  std::uint64_t repetitions = 0;   ///< statements sent again after a lost connection
  std::uint64_t transactions = 0;  ///< transactions that transaction() has begun
  std::uint64_t retries = 0;       ///< of these, after a serialisation failure and the like
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const client_metrics& counts);

}  // namespace gyre::postgres
