// SPDX-License-Identifier: Apache-2.0
// client_options: the settings, time limits and counters of a client.
#pragma once

#include <gyre/base/circuit_breaker.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/http/http2_client_options.hpp>
#include <gyre/http/proxy.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/tls_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

namespace gyre::http {

/// Time limits of a request; zero means no limit. Progress (a byte, a redirect) restarts every
/// limit except `total`, so only `total` stops a peer that sends a byte now and then.
///
/// Errors: errc::timed_out, whose message names the phase; `expect_continue` causes no error.
struct client_timeouts {
  /// Limits the lookup and the connection attempt, and a proxy's response to CONNECT.
  duration connect = std::chrono::seconds{10};
  /// Limits the TLS handshake. The limit of the tls context applies, too
  /// (tls::errc::handshake_timeout).
  duration handshake = std::chrono::seconds{10};
  /// Limits the time in which no byte of the request can be sent.
  duration send = std::chrono::seconds{30};
  /// Limits the time from the end of the request to the first byte of the response. Interim
  /// responses (1xx) do not extend it.
  duration first_byte = std::chrono::minutes{1};
  /// Limits the time between bytes of the response, once the request has been sent.
  duration between_bytes = std::chrono::seconds{30};
  /// How long to wait for "100 Continue" before the body is sent anyway: see
  /// client_request::expect_continue().
  duration expect_continue = std::chrono::seconds{1};
  /// Limits the whole request: waiting for a connection, redirects, and reading the body, even if
  /// it is streamed.
  duration total = std::chrono::minutes{5};
};

/// Limits for responses.
///
/// Errors: errc::target_too_long for the status line, fields_too_large for fields and trailers,
/// unexpected_status for interim responses, body_too_large, too_many_redirects.
struct client_limits {
  std::size_t start_line = 8 * 1024;   ///< bytes of the status line
  std::size_t fields = 64 * 1024;      ///< bytes of all fields; also the limit for the trailers
  std::size_t field_count = 200;       ///< number of fields; also the limit for the trailers
  std::size_t interim_responses = 16;  ///< number of 1xx responses before the final one
  /// The maximum size, after decompression, of a body that is read as a whole, in bytes. Does not
  /// limit streamed bodies.
  std::size_t body = std::size_t{16} * 1024 * 1024;
  /// The maximum size, after decompression, of a streamed body, in bytes.
  std::uint64_t decompressed = std::uint64_t{1024} * 1024 * 1024;
  std::size_t redirects = 10;  ///< redirects that a request follows; zero: none
};

/// Options of hedged requests: a second attempt is sent when the first one takes long, and the
/// response that comes first is used (see gyre::hedge()). The other attempt is stopped, which
/// closes its connection, or resets its stream of HTTP/2.
///
/// Only idempotent requests without a streamed body are hedged (client_request::set_idempotent()).
/// With several attempts, a request that fails is also repeated at once. An attempt sees neither
/// cookies nor redirects of another one that still runs. client_timeouts::total limits all attempts
/// together.
struct hedging_options {
  /// The time after the begin of an attempt at which the next one begins; must be positive. Best a
  /// high quantile of the expected time, such as the 95th percentile.
  duration delay = std::chrono::seconds{1};
  /// Maximum number of attempts of a request, the first included; at least 2.
  std::size_t attempts = 2;
  /// Maximum share of additional attempts among all requests, from 0 to 1, so that a slow server is
  /// not made slower by twice the load. Up to ten unused attempts are saved, with which a new
  /// client begins.
  double max_share = 0.1;
};

/// Options of a client.
struct client_options {
  client_timeouts timeouts = {};
  client_limits limits = {};

  /// Maximum number of open connections to one scheme, host and port, or to one proxy; at least 1.
  /// Further requests wait for a connection. A connection of HTTP/2 carries several requests at a
  /// time, so that usually one is open.
  std::size_t connections_per_host = 8;
  /// Maximum number of requests that wait for a connection to one host; a further one fails with
  /// io::errc::waiting_limit.
  std::size_t waiting_per_host = std::numeric_limits<std::size_t>::max();
  /// Time after which an idle connection is closed. It should be shorter than the servers' own
  /// limit. A server that sends "Keep-Alive: timeout=N" shortens it to N - 1 seconds for its
  /// connection.
  duration idle_timeout = std::chrono::seconds{30};
  /// Age from which a connection is not used for a further request.
  duration max_lifetime = std::chrono::minutes{30};
  net::race_options connecting = {};

  /// Whether redirects are followed (301, 302, 303, 307, 308).
  bool follow_redirects = true;
  /// Whether a redirect may lead from https to http.
  bool allow_insecure_redirects = false;
  /// Whether to request compressed bodies and unpack them. For a request that sets Accept-Encoding
  /// or Range itself, the body is returned as the server sent it.
  bool decompress = true;
  /// Whether to store and send cookies: see client::cookies().
  bool cookies = false;
  /// The TLS context for https; tls_context::client() makes one with other authorities or a client
  /// certificate. If empty, tls::tls_context::default_client() is used, which trusts the system's
  /// authorities. New connections resume the newest session of their scheme, host and port. If a
  /// server selects another application protocol than h2 and http/1.1, the request fails with
  /// tls::errc::no_shared_application.
  tls::tls_context tls = {};
  /// HTTP/2, which https servers are offered.
  http2_client_options http2 = {};
  /// A circuit breaker for each scheme, host and port, by default none: while requests there fail,
  /// further ones are refused with errc::circuit_open. These count as failures: a status from 500
  /// on, except for 501 and 505; a broken connection; a malformed response; a time limit. A request
  /// that the program stops, or that fails for another reason, does not count. A streamed response
  /// counts when its head was received. After redirects, each server is judged by its own response.
  std::optional<circuit_breaker_options> breaker = {};
  /// Hedged requests, by default none.
  std::optional<hedging_options> hedging = {};
  /// Whether requests pass on the trace of the request that the calling coroutine serves, if
  /// trace_propagation is in use there: as the field `traceparent`, with a new id for each request
  /// and each attempt, and `tracestate`. A request that has the field `traceparent` keeps it.
  bool sends_trace = false;
  /// The proxies to use, by default none. proxy_from_environment() reads http_proxy and similar
  /// variables.
  proxy_settings proxy = {};
  /// Makes each new connection, to the server or proxy whose host and port it gets, in place of
  /// net::connect(): for a proxy protocol of the program's own, such as SOCKS, and for tests (see
  /// testing::http_client). Called on the loop, also while earlier connections are being made. TLS
  /// and the time limits apply as usual; `connecting` does not. Objects to which the function
  /// refers must outlive the client and its requests.
  std::function<task<net::tcp_stream>(net::host_port)> connector = {};
};

/// Counters of a client: current values (origins, open, idle, http2_connections, open_circuits) and
/// totals since its construction.
struct client_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t origins = 0;            ///< hosts for which the client has a pool of connections
  std::size_t open = 0;               ///< open connections, idle or in use
  std::size_t idle = 0;               ///< open connections that no request uses
  std::size_t http2_connections = 0;  ///< open connections of HTTP/2
  std::uint64_t requests = 0;
  std::uint64_t redirects = 0;  ///< number of redirects followed
  /// Requests repeated because their connection was closed, or because the server has refused them
  /// unprocessed.
  std::uint64_t retries = 0;
  std::uint64_t hedges = 0;         ///< additional attempts of hedged requests
  std::uint64_t hedges_used = 0;    ///< requests whose response came from an additional attempt
  std::uint64_t hedges_denied = 0;  ///< additional attempts that hedging_options::max_share denied
  std::uint64_t circuit_refusals = 0;  ///< requests that a circuit breaker refused
  std::size_t open_circuits = 0;       ///< circuit breakers that are open or half-open now
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const client_metrics& counts);

}  // namespace gyre::http
