// SPDX-License-Identifier: Apache-2.0
// client_options: the settings, time limits and counters of a client.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/proxy.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/tls/tls_context.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace gyre::http {

/// Time limits of a request; zero: none. All but `total` begin again with each byte or redirect, so
/// only `total` stops a peer that sends a byte now and then.
struct client_timeouts {
  /// Lookup and connection; also the response of a proxy to CONNECT.
  duration connect = std::chrono::seconds{10};
  /// The handshake of TLS; that of the context is a limit, too.
  duration handshake = std::chrono::seconds{10};
  /// Sending without progress.
  duration send = std::chrono::seconds{30};
  /// From the end of the request to the first byte of the response. Interim responses (1xx) do not
  /// extend it.
  duration first_byte = std::chrono::minutes{1};
  /// Time between the bytes of the response, once the request has been sent.
  duration between_bytes = std::chrono::seconds{30};
  /// Wait for "100 Continue" (see client_request::expect_continue()), after which the body is sent.
  duration expect_continue = std::chrono::seconds{1};
  /// All of it: redirects, waiting for a connection, and reading the body, streamed ones included.
  duration total = std::chrono::minutes{5};
};

/// Limits of what a server may send.
struct client_limits {
  std::size_t start_line = 8 * 1024;   ///< bytes of the first line
  std::size_t fields = 64 * 1024;      ///< bytes of all fields, and of the trailers
  std::size_t field_count = 200;       ///< number of fields, and of trailers
  std::size_t interim_responses = 16;  ///< 1xx before the response
  /// Bytes of a body that is read whole, after decompression; streamed bodies have no such limit.
  std::size_t body = std::size_t{16} * 1024 * 1024;
  /// Bytes that a streamed body may unpack to.
  std::uint64_t decompressed = std::uint64_t{1024} * 1024 * 1024;
  std::size_t redirects = 10;
};

/// Options of a client.
struct client_options {
  client_timeouts timeouts = {};
  client_limits limits = {};

  /// Open connections to one scheme, host and port, or to one proxy; at least 1. Further requests
  /// wait for one.
  std::size_t connections_per_host = 8;
  /// Requests that wait so; a further one fails with io::errc::waiting_limit.
  std::size_t waiting_per_host = std::numeric_limits<std::size_t>::max();
  /// An idle connection is closed after this time. Let it be less than the servers' own limit. A
  /// server that sends "Keep-Alive: timeout=N" shortens it to N - 1 seconds.
  duration idle_timeout = std::chrono::seconds{30};
  /// A connection is not used again once it is this old.
  duration max_lifetime = std::chrono::minutes{30};
  net::race_options connecting = {};

  /// Whether redirects are followed (301, 302, 303, 307, 308).
  bool follow_redirects = true;
  /// Whether a redirect may lead from https to http.
  bool allow_insecure_redirects = false;
  /// Whether to ask for compressed bodies, and to unpack them. A request with a field
  /// Accept-Encoding or Range gets its body as it was sent.
  bool decompress = true;
  /// Whether to keep and send cookies: see client::cookies().
  bool cookies = false;
  /// For https; tls_context::client() makes one with other authorities or a certificate. Empty:
  /// tls::tls_context::default_client(), which trusts the system's authorities. New connections
  /// resume the newest session of their scheme, host and port. A server that chooses another
  /// application protocol than http/1.1 gets no request: tls::errc::no_shared_application.
  tls::tls_context tls = {};
  /// None by default: proxy_from_environment() reads http_proxy and its like.
  proxy_settings proxy = {};
};

/// Counts of a client: now, and since it was constructed.
struct client_metrics {
  std::size_t origins = 0;  ///< hosts that the client has pools of connections for
  std::size_t open = 0;     ///< connections, idle or in use
  std::size_t idle = 0;     ///< connections that wait for use
  std::uint64_t requests = 0;
  std::uint64_t redirects = 0;  ///< that were followed
  std::uint64_t retries = 0;    ///< on a new connection, as the server had closed the old one
};

}  // namespace gyre::http
