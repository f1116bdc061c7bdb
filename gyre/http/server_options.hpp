// SPDX-License-Identifier: Apache-2.0
// server_options: size limits and time limits of an HTTP server.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/forwarding.hpp>
#include <gyre/http/http2_options.hpp>
#include <gyre/net/tcp_server.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace gyre::http {

/// Size limits for requests, with the status of the response to a request that exceeds them. The
/// connection is closed after that response.
struct server_limits {
  std::size_t start_line = std::size_t{8} << 10;     ///< bytes of the request line: 414
  std::size_t fields = std::size_t{32} << 10;        ///< bytes of all fields: 431
  std::size_t field_count = 100;                     ///< number of fields: 431
  std::size_t body = std::size_t{1} << 20;           ///< bytes of a body read as a whole: 413
  std::size_t streamed_body = std::size_t{1} << 40;  ///< bytes of a streamed body: 413
  /// Maximum number of requests of one connection that are handled in one turn of the loop; further
  /// ones wait for the next turn.
  std::size_t pipelined = 128;
};

/// Time limits; zero means no limit. They may expire late by the granularity of the loop's timers.
struct server_timeouts {
  /// Time from the beginning of a connection to its first byte; then the connection is closed.
  duration first_byte = std::chrono::seconds{30};
  /// Time from the first byte of a request to the end of its fields; then 408 is sent.
  duration head = std::chrono::seconds{10};
  /// Time between two requests; then the connection is closed.
  duration idle = std::chrono::seconds{60};
  /// Base time for receiving a body, to which one second is added for each `body_rate` bytes; then
  /// 408 is sent. The time in which the handler does not read a streamed body does not count.
  duration body = std::chrono::seconds{10};
  std::size_t body_rate = 1024;  ///< bytes per second
};

/// Ids of requests, which connect the lines of several programs' logs: see request::id().
struct request_id_options {
  /// The name of the field of requests and responses that has the id, such as "X-Request-Id". If
  /// empty, requests have no ids.
  std::string field = {};
  /// Whether the id that a trusted proxy (forwarding_options) has sent is used. It must have 1 to
  /// `max_size` letters, digits or characters of "-._~+/=:@"; otherwise a new id is made.
  bool takes_from_proxies = true;
  std::size_t max_size = 128;
};

/// Options of a server, fixed at its construction.
struct server_options {
  /// Options of the underlying TCP server: the number of connections, in all and from one address,
  /// loops, water marks and time limits of sending, memory of all connections, PROXY protocol,
  /// name. idle_timeout and message_timeout are ignored; `timeouts` replaces them. output_limit is
  /// ignored, because memory_limit bounds the bodies to send. A peer that reads slowly, but some of
  /// a response within each write_timeout, gets all of it; close_timeout and close_limit begin when
  /// the kernel has the last response of the connection.
  net::tcp_server_options tcp = {.name = "http_server"};
  /// Size limits for requests.
  server_limits limits = {};
  server_timeouts timeouts = {};
  http2_options http2 = {};
  /// The hosts for which the server responds, in any case of letters and without a port. If empty,
  /// the server responds for any host. A request for another host (in Host or an absolute target)
  /// gets 421, and the connection stays open unless the request has a body. "*.example.org" stands
  /// for names with one more label, "" for requests that name no host. Addresses are compared as
  /// text, IPv6 addresses in brackets. The constructor of the server throws std::invalid_argument
  /// for an entry that is not a host.
  std::vector<std::string> hosts = {};
  /// The proxies that name the server's clients.
  forwarding_options forwarding = {};
  /// Ids of requests, by default none. The constructor of the server throws std::invalid_argument
  /// if the field is not a token.
  request_id_options request_ids = {};
  /// Whether the server counts the responses of each route, and their durations: see
  /// server::route_metrics(). Takes 8 KiB for each route and loop, and some 30 ns for each request.
  bool counts_routes = false;
  /// Whether to serve a client that has ended its side of the connection (a FIN; over TLS a
  /// close_notify), such as `printf … | nc -N`. By default such a client counts as disconnected,
  /// because clients that give up close their sockets: running handlers, streamed responses, event
  /// streams and upgraded connections are requested to stop, and a handler that then ends by
  /// operation_cancelled sends no response. In either case, requests received before the end are
  /// handled in order: the end is processed after all of them.
  bool serve_half_closed = false;
};

/// Options of a route.
struct route_options {
  /// Whether the handler reads the body by request::next_chunk() instead of getting it as a whole.
  bool streamed_body = false;
  /// Replaces server_limits::body or streamed_body for this route, unless it is zero.
  std::size_t body_limit = 0;
};

}  // namespace gyre::http
