// SPDX-License-Identifier: Apache-2.0
// tcp_server_options, tcp_server_metrics: the settings and the counts of a tcp_server.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/connection_metrics.hpp>
#include <gyre/net/connection_options.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/proxy_protocol.hpp>
#include <gyre/net/socket_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gyre::net {

/// Distribution of connections over the loops of a server.
enum class accept_strategy : std::uint8_t {
  /// One loop accepts, and the loops get the connections in turn.
  round_robin,
  /// Connections from one peer address always go to one loop.
  hash_of_peer,
  /// A connection goes to the loop with the fewest connections.
  least_connections,
  /// Every loop accepts connections from a socket of its own (SO_REUSEPORT); the kernel distributes
  /// them by a hash of both addresses. This strategy is the cheapest, because a connection never
  /// changes threads. Unix sockets cannot share an address: for them, one loop accepts as with
  /// round_robin.
  every_loop,
};

/// Options of a tcp_server, fixed when it is constructed.
struct tcp_server_options {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  /// The name of the server, for logs and metrics.
  std::string name = "tcp_server";
  accept_strategy strategy = accept_strategy::round_robin;
  /// The options of each connection.
  connection_options connections = {};
  /// The maximum number of connections at a time, at least 1. Further ones wait in the kernel's
  /// queue (of length `backlog`) until one ends. A connection above the limit that adopt() passed,
  /// or that another loop accepted at the same time as the last allowed one, is closed, and counted
  /// as refused.
  std::size_t max_connections = unlimited;
  int backlog = 4096;
  /// The maximum number of connections at a time from one IP address (IPv6: one /64 network; Unix:
  /// no limit). Further ones are closed at once. With proxy_protocol the address is the one in the
  /// header. By default half of RLIMIT_NOFILE when the server is constructed, so that no peer can
  /// take all descriptors. `unlimited` is for servers behind a proxy that does not name clients.
  std::optional<std::size_t> connections_per_address = std::nullopt;
  /// The maximum number of connections that one address (or network) may open within
  /// `accept_interval`. Further ones are closed at once.
  std::size_t accepts_per_address = unlimited;
  duration accept_interval = std::chrono::seconds{1};
  /// The maximum number of bytes that all connections may hold: waiting output, unconsumed input,
  /// and those of tcp_connection::count_memory(). Each loop has a budget of memory_limit / loops.
  /// While its connections together hold no more than half of it, none is limited. Beyond that, one
  /// that grows may hold no more than (half the budget) / (connections of the loop), or ends with
  /// io::errc::memory_limit. A handshake of `transport` counts as a connection that holds what it
  /// needs: for TLS some 44 KiB from the client's first bytes on, and the message that they
  /// announce. Descriptors that wait to be sent, and files that send_file() holds open, count as
  /// memory_limit / (RLIMIT_NOFILE / 2) bytes each, except the first one of each connection.
  std::size_t memory_limit = std::size_t{512} << 20;
  /// The maximum number of bytes that may wait for the loops in calls of broadcast() and
  /// for_each(), where each call counts 1 KiB besides its bytes. Further calls are refused.
  std::size_t broadcast_limit = std::size_t{4} << 20;
  /// Whether to set SO_REUSEADDR, which allows the server to listen again at once after a restart.
  bool reuse_address = true;
  /// Whether to set SO_REUSEPORT: other servers, of this process or of other processes of the same
  /// user, may listen at the same endpoint, and the kernel distributes connections among them.
  /// Implied by every_loop.
  bool reuse_port = false;
  /// Options that are set on each listening socket before it binds, after the options above, which
  /// they override; connections inherit buffer sizes and the like without a system call for each.
  socket_options sockets = {};
  /// Whether to set IPV6_V6ONLY: an IPv6 listener then does not take IPv4 connections.
  bool ipv6_only = false;
  /// The pause of accepting when there are no descriptors or memory left (EMFILE, ENFILE, ENOBUFS,
  /// ENOMEM), at least 1 ms. It doubles up to `accept_backoff_limit` while the shortage continues.
  /// Without descriptors, up to 64 waiting connections per pause are accepted with a reserve
  /// descriptor and closed, so that their peers know.
  duration accept_backoff = std::chrono::milliseconds{10};
  duration accept_backoff_limit = std::chrono::seconds{1};
  /// The time after stop() in which a new connection may bring its first bytes, and a connection
  /// with an incomplete message the rest; at most the timeout of stop().
  duration stop_grace = std::chrono::seconds{1};
  /// The PROXY protocol. On connections of trusted proxies peer_endpoint() is the client's, if the
  /// header has one, and context() is a proxy_header when on_connection is called.
  proxy_protocol_options proxy_protocol = {};
  /// A protocol below the callbacks, such as TLS (tls::server_transport()): the callbacks get and
  /// send plain bytes. A connection begins when its handshake is done. If the handshake fails, the
  /// connection is closed, counted as refused, and reported by the transport.
  std::shared_ptr<const net::transport> transport = nullptr;
  /// The protocols that the program speaks above `transport`, the preferred one first, for clients
  /// that ask by ALPN. Used if the transport names none itself. A client that asks only for others
  /// is served nevertheless. http::server sets them.
  std::vector<std::string> application_protocols = {};
};

/// Counters since the construction of a server.
struct tcp_server_metrics {
  std::uint64_t accepted = 0;  ///< adopted and refused ones included
  std::uint64_t refused = 0;   ///< closed: no descriptors, a limit, no PROXY header, no TLS
  std::uint64_t limited = 0;   ///< the part of `refused` above a limit per address
  std::uint64_t failed_handshakes = 0;  ///< the part whose transport's handshake failed
  std::uint64_t accept_errors = 0;      ///< times that accepting had to pause
  std::size_t connections = 0;          ///< at present
  connection_metrics traffic = {};
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const tcp_server_metrics& counts);

}  // namespace gyre::net
