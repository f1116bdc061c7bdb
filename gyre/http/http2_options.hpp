// SPDX-License-Identifier: Apache-2.0
// http2_options: the limits of HTTP/2 connections of a server.
//
//     gyre::http::server_options options;
//     options.http2.max_streams = 32;
//     options.http2.prior_knowledge = false;
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre::http {

/// Limits of each HTTP/2 connection. server_limits and server_timeouts apply to the requests of
/// HTTP/2, too. A peer that exceeds a limit for abuse gets GOAWAY with ENHANCE_YOUR_CALM; see
/// docs/design/http2.md. The constructor of the server throws std::invalid_argument for values out
/// of their ranges.
struct http2_options {
  /// Whether to speak HTTP/2 at all. If false, a client that begins with HTTP/2 gets 505.
  bool enabled = true;
  /// Whether a client may begin with HTTP/2 in clear text, without asking (RFC 9113, 3.3). Such a
  /// client's first line, "PRI * HTTP/2.0", is no request of HTTP/1.1, so nothing else changes.
  bool prior_knowledge = true;
  /// The maximum of requests at a time; at least 1. A request counts until its handler has ended,
  /// even if the client has reset its stream. Further ones are refused with REFUSED_STREAM.
  std::uint32_t max_streams = 100;
  /// Bytes of a streamed request body that wait for the handler, for each stream; from 1 to
  /// 2^31 - 1.
  std::uint32_t stream_window = std::uint32_t{64} << 10;
  /// Bytes of all streamed request bodies of the connection that wait for their handlers; from
  /// 65,535, which every client may send at the beginning, to 2^31 - 1.
  std::uint32_t connection_window = std::uint32_t{256} << 10;
  /// Bytes of the heads of all requests in progress, where each field counts 32 bytes more than its
  /// text. Further requests are refused with REFUSED_STREAM. A single request may have a longer
  /// head, up to server_limits.
  std::size_t head_memory = std::size_t{256} << 10;
  /// Bytes of request bodies that are read as a whole, for all requests of the connection. Each may
  /// send 6 KiB at once, and more as far as this memory is free; the oldest may always send more. A
  /// single request may have a longer body. A client that ignores the windows and sends more than
  /// three times as much has its newest incomplete requests refused with REFUSED_STREAM.
  std::size_t body_memory = std::size_t{256} << 10;
  /// Bytes of responses that wait to be sent, heads included; at least 1. While more wait, the
  /// handlers of further requests are not called; while twice as much waits, those that write
  /// streamed bodies wait. A single response may be longer.
  std::size_t response_memory = std::size_t{256} << 10;
  /// Bytes that the state of the protocol may hold, such as streams, header tables and frames that
  /// wait; the heads of responses come on top. At least 64 KiB. A connection that needs more is
  /// closed.
  std::size_t session_memory = std::size_t{512} << 10;
  /// Bytes that all connections of the server may hold above their idle state (26 KiB each), apart
  /// from single long responses; at least `session_memory`. Above a quarter of it, a connection may
  /// hold a part of its limits of requests, heads, bodies and responses, an eighth of most. Above
  /// three quarters, no client may send more of a body that is read as a whole.
  /// tcp_server_options::memory_limit counts the bytes, too, and ends connections.
  std::size_t server_memory = std::size_t{64} << 20;
  /// Frames that carry nothing: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, RST_STREAM of
  /// streams that have ended, and frames of unknown types. A client may send `frame_burst` at once,
  /// `frames_per_second` on average, and a few for each request and for each DATA frame in either
  /// direction.
  /// `frame_burst` must be at least 1.
  std::uint32_t frame_burst = 1000;
  std::uint32_t frames_per_second = 100;
  /// Streams that are reset before their response has been sent to its end: by the client, and,
  /// counted apart, by the server because of the client's errors.
  std::uint32_t reset_burst = 200;
  /// The average of such streams: see `reset_burst`.
  std::uint32_t resets_per_second = 20;
  /// The average of bytes per second that a client must take of a response while its windows hold
  /// the response up; connection_options::write_timeout allows for pauses. Slower streams are reset
  /// with CANCEL.
  std::size_t response_rate = 1024;
};

}  // namespace gyre::http
