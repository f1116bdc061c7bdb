// SPDX-License-Identifier: Apache-2.0
// http2_client_options: whether and how a client speaks HTTP/2.
//
//     gyre::http::client_options options;
//     options.http2.max_streams = 32;
//     options.http2.ping_interval = 15s;
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace gyre::http {

/// Settings of each HTTP/2 connection of a client; without effect in a library that was built
/// without nghttp2, whose clients speak HTTP/1.1. client_timeouts and client_limits apply to the
/// requests of HTTP/2, too. A server that exceeds a limit for abuse gets GOAWAY with
/// ENHANCE_YOUR_CALM, and its requests fail with errc::http2_violation; see docs/design/http2.md.
struct http2_client_options {
  /// Whether to offer HTTP/2 to https servers by ALPN, besides HTTP/1.1. If false, a server that
  /// chooses h2 from a tls context's own application protocols is refused. Such a context, if true,
  /// decides alone what is offered.
  bool enabled = true;
  /// Whether to begin with HTTP/2 in clear text (RFC 9113, 3.3). All http servers must then speak
  /// HTTP/2; requests to others fail with errc::http2_violation. Proxies that get http URLs in
  /// absolute form are spoken to in HTTP/1.1.
  bool prior_knowledge = false;
  /// The maximum number of requests at a time on a connection; at least 1. The server may allow
  /// fewer. Further requests use another connection, up to client_options::connections_per_host, or
  /// wait.
  std::uint32_t max_streams = 100;
  /// Bytes of a response's body that may wait for the program; from 1 to 2^31 - 1. All responses of
  /// a connection hold at most `max_streams` times as many. A server that has not acknowledged this
  /// setting yet may send 65,535 bytes.
  std::uint32_t stream_window = std::uint32_t{1} << 20;
  /// Time after which a PING is sent to a server that sends nothing while requests are in progress;
  /// zero means never.
  duration ping_interval = std::chrono::seconds{30};
  /// Time for the acknowledgement of a PING, after which the connection is closed, and its requests
  /// fail with errc::timed_out. Must be positive.
  duration ping_timeout = std::chrono::seconds{10};
  /// Bytes that the state of the protocol may hold, such as streams, header tables and frames that
  /// wait, but not heads of requests; at least 64 KiB. A connection that needs more is closed.
  std::size_t session_memory = std::size_t{8} << 20;
  /// Frames that carry no body: a server may send `frame_burst`, which is at least 1, at once, and
  /// `frames_per_second` on average; also a few for each request and DATA frame of either side.
  std::uint32_t frame_burst = 1000;
  std::uint32_t frames_per_second = 100;
};

}  // namespace gyre::http
