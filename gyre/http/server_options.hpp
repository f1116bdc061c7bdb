// SPDX-License-Identifier: Apache-2.0
// server_options: limits and time limits of an HTTP server.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/net/tcp_server.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace gyre::http {

/// Limits of what a peer sends, with the status of the response to one that exceeds it. That
/// response ends the connection.
struct server_limits {
  std::size_t start_line = std::size_t{8} << 10;     ///< bytes of the request line: 414
  std::size_t fields = std::size_t{32} << 10;        ///< bytes of all fields: 431
  std::size_t field_count = 100;                     ///< 431
  std::size_t body = std::size_t{1} << 20;           ///< bytes of a body that is read whole: 413
  std::size_t streamed_body = std::size_t{1} << 40;  ///< bytes of a streamed one: 413
  /// Requests of one connection that are answered in one turn of the loop; further ones wait for
  /// the next turn.
  std::size_t pipelined = 128;
};

/// Time limits, of which zero means none. They expire up to the granularity of the loop's timers
/// late.
struct server_timeouts {
  /// Time from the beginning of a connection to its first byte; the connection is closed.
  duration first_byte = std::chrono::seconds{30};
  /// Time from the first byte of a request to the end of its fields: 408.
  duration head = std::chrono::seconds{10};
  /// Time between two requests; the connection is closed.
  duration idle = std::chrono::seconds{60};
  /// A body may take this time, and then one second more for each `body_rate` bytes: 408. The time
  /// in which a handler does not ask for more of a streamed body does not count.
  duration body = std::chrono::seconds{10};
  std::size_t body_rate = 1024;  ///< bytes per second
};

/// Options of a server, fixed when it is constructed.
struct server_options {
  /// Options of the TCP server below: connections at a time and from one address, loops, water
  /// marks and time limits of sending, memory of all connections, PROXY protocol, name. Its
  /// idle_timeout and message_timeout are not used: `timeouts` has them. Nor is its output_limit:
  /// the bodies that wait are bounded by memory_limit. A peer that reads slowly, but takes some of
  /// a response within each write_timeout, gets all of it; close_timeout and close_limit begin when
  /// the kernel has the last response of the connection.
  net::tcp_server_options tcp = {.name = "http_server"};
  server_limits limits = {};
  server_timeouts timeouts = {};
  /// Hosts that the server answers for, in any case and without a port; a request for another one
  /// (Host, or an absolute target) gets 421, and the connection stays open unless the request has a
  /// body. None: any host.
  /// "*.example.org" stands for names with one label more, "" for requests that name no host.
  /// Addresses are compared as text, those of IPv6 in brackets. The constructor of the server
  /// throws std::invalid_argument for an entry that is no host.
  std::vector<std::string> hosts = {};
  /// Whether a client that has ended its side (a FIN; over TLS a close_notify) is still served,
  /// such as `printf … | nc -N`. By default its end is taken for its leave, as clients that give up
  /// close their sockets: a handler that runs then is asked to stop, and so are streamed responses,
  /// event streams and upgraded connections; one that ends by operation_cancelled sends no
  /// response. Either way the requests that came before are answered, in their order: the end
  /// counts only when all of them have been taken.
  bool serve_half_closed = false;
};

/// Options of a route.
struct route_options {
  /// The handler reads the body by request::next_chunk(), instead of getting it whole.
  bool streamed_body = false;
  /// Replaces server_limits::body or streamed_body; zero: that limit.
  std::size_t body_limit = 0;
};

}  // namespace gyre::http
