// SPDX-License-Identifier: Apache-2.0
// client_options: the settings and counters of a NATS client.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/tls/tls_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace gyre::nats {

/// Options of a client.
struct client_options {
  /// The name of the connection in the server's lists; empty: none.
  std::string name = {};

  // At most one login may be set: a user, a token, a seed, or credentials. A user or a token in the
  // text of a server is used for that server instead.

  /// The name of the user, for a login with `password`.
  std::string user = {};
  std::string password = {};
  /// A token, for a login without a user.
  std::string token = {};
  /// The seed of a key, "SU…", with which the client signs what the server sends.
  std::string nkey_seed = {};
  /// The text of a file of credentials: a JWT and a seed.
  std::string credentials = {};
  /// The path of such a file, which is read before each login, and blocks the loop for that long.
  std::string credentials_file = {};

  /// Encrypts, and demands it of the server. Without a value, servers "tls://…" get
  /// tls::tls_context::default_client(), and others no TLS. The certificate must be for the host
  /// that the client connects to; if a server has announced an address without encryption, or the
  /// address is not a name, for the name of the server that has announced it.
  std::optional<tls::tls_context> tls = std::nullopt;
  /// Whether TLS begins before the server's first bytes, as its `handshake_first` demands.
  bool tls_first = false;

  /// Whether to use only the servers that the constructor got, and not those of their cluster.
  bool ignore_discovered_servers = false;
  /// Whether to try the servers in random order, so that many clients spread over a cluster.
  bool shuffle_servers = true;
  /// The servers of the cluster that the client remembers.
  std::size_t max_servers = 64;
  /// Whether the client's own subscriptions get messages that the client publishes.
  bool echo = true;
  /// The beginning of the subjects of replies, for users who may subscribe to no other.
  std::string inbox_prefix = "_INBOX";

  /// Requests whose replies have not come; at least 1. A further one fails at once with
  /// io::errc::waiting_limit.
  std::size_t max_in_flight = 64 * 1024;
  /// Calls that wait for a connection, for room in the output, or in flush(); at least 1. A further
  /// one fails at once with io::errc::waiting_limit.
  std::size_t max_waiting = 64 * 1024;
  /// Bytes of headers and payload of a received message. A longer one ends the connection with
  /// errc::message_too_large.
  std::size_t max_message = std::size_t{64} << 20;
  /// Bytes of output that wait for the kernel, above which publish() waits; one message more may
  /// wait. Above this size PINGs of the server get no PONG.
  std::size_t high_water = std::size_t{1} << 20;
  /// Bytes of messages that are kept while the client reconnects; above them publish() waits. 0:
  /// publish() waits for the connection.
  std::size_t keep_limit = std::size_t{8} << 20;

  /// Attempts to connect in a row, over all servers, after which the calls that wait for them fail;
  /// at least 1.
  std::size_t max_connect_attempts = 5;
  /// Limit of one attempt, for each of a server's addresses, and then of the login.
  duration connect_timeout = std::chrono::seconds{5};
  /// The delays before the first attempt after a loss, and each time that all servers were tried:
  /// random, of at most `initial_delay` * 2^n and `longest_delay`.
  duration initial_delay = std::chrono::milliseconds{100};
  duration longest_delay = std::chrono::seconds{5};
  /// Seed of the random delays and orders; none: a random one.
  std::optional<std::uint64_t> seed = std::nullopt;

  /// The time limit of a request that has none of its own.
  duration request_timeout = std::chrono::seconds{5};
  /// The time limit of drain(); zero: none.
  duration drain_timeout = std::chrono::seconds{30};
  /// After this time without a byte the client sends PING. After `max_pings` of them without a byte
  /// the connection is given up.
  duration ping_interval = std::chrono::seconds{30};
  std::size_t max_pings = 2;
};

/// Counts of a client: now, and since it was constructed.
struct client_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t in_flight = 0;      ///< requests whose replies have not come
  std::size_t waiting = 0;        ///< calls that wait: see client_options::max_waiting
  std::size_t subscriptions = 0;  ///< subscriptions that get messages
  std::size_t kept_bytes = 0;     ///< output that is kept for the next connection
  std::size_t servers = 0;        ///< servers that the client knows
  std::uint64_t connected = 0;    ///< logins that succeeded
  std::uint64_t published = 0;    ///< messages, requests included
  std::uint64_t published_bytes = 0;
  std::uint64_t received = 0;  ///< messages, replies included
  std::uint64_t received_bytes = 0;
  std::uint64_t dropped = 0;        ///< messages for which a queue had no room
  std::uint64_t late_replies = 0;   ///< replies to requests that wait no more
  std::uint64_t server_errors = 0;  ///< errors (-ERR) that servers have sent
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const client_metrics& counts);

}  // namespace gyre::nats
