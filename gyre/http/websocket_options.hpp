// SPDX-License-Identifier: Apache-2.0
// websocket_options: limits, time limits, compression and handshake of a WebSocket.
//
//     gyre::http::websocket_options options;
//     options.limits.message = 64 << 10;
//     options.subprotocols = {"chat.v2", "chat.v1"};
//     options.compression.enabled = true;
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/fields.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gyre::http {

/// Size limits of messages. A peer that exceeds one of the first two gets the close code 1009, and
/// websocket::receive() fails with websocket_errc::too_large. The memory that an unfinished message
/// holds is at most twice the bytes that have come of it, however many frames bring them.
struct websocket_limits {
  /// Maximum number of bytes of a message that is received as a whole, after it was unpacked.
  std::size_t message = std::size_t{1} << 20;
  /// Maximum number of bytes of a frame, as it is sent: also of messages received in pieces.
  std::size_t frame = std::size_t{16} << 20;
  /// Maximum number of bytes that wait to be sent by a websocket_connection. A single message may
  /// be larger.
  std::size_t output = std::size_t{1} << 20;

  friend bool operator==(const websocket_limits&, const websocket_limits&) = default;
};

/// Time limits of a WebSocket; zero means no limit. They apply while a receive waits, because only
/// then the socket reads what would keep them.
struct websocket_timeouts {
  /// Time without a byte of the peer after which a ping is sent.
  duration keep_alive = std::chrono::seconds{30};
  /// Time from that ping to any byte of the peer; then receives fail with
  /// websocket_errc::silent_peer.
  duration pong = std::chrono::seconds{20};
  /// Time from the first byte of a message to its end; then receives fail with
  /// websocket_errc::message_timeout. For a message received in pieces, the time of each piece.
  duration message = std::chrono::minutes{1};
  /// Time for which websocket::close() waits for the Close frame of the peer.
  duration close = std::chrono::seconds{5};

  friend bool operator==(const websocket_timeouts&, const websocket_timeouts&) = default;
};

/// The extension permessage-deflate (RFC 7692).
///
/// A socket whose context is kept from message to message compresses small messages better, but
/// holds memory while it is open: 8 * 2^window_bits bytes to compress, and 2^peer_window_bits bytes
/// and 8 KiB to unpack, each from its first compressed message on. Sockets without the context
/// share this memory: only those within a message hold some.
struct websocket_compression {
  /// Whether to compress if the peer can. By default clients offer it, and servers decline.
  std::optional<bool> enabled = {};
  int level = 6;              ///< 1 (fast) to 9 (small)
  unsigned window_bits = 12;  ///< 8 to 15: this side refers back at most 2^window_bits bytes
  /// 8 to 15: the largest window that the peer may use. A server can ask only those clients for
  /// less than 15 that allow it, as all browsers but old ones do.
  unsigned peer_window_bits = 15;
  bool keeps_context = true;       ///< whether this side refers back to earlier messages
  bool keeps_peer_context = true;  ///< whether the peer may refer back to earlier messages
  /// Shorter messages are sent as they are, in bytes.
  std::size_t min_size = 64;
};

/// The use of HTTP/2 (RFC 8441) by a client's WebSocket, which is then a stream of a connection
/// that it shares with requests and other WebSockets. In HTTP/1.1 it has a connection of its own.
enum class websocket_http2 : std::uint8_t {
  never,  ///< only HTTP/1.1
  /// If the http::client has a connection of HTTP/2 to the server whose SETTINGS allow it, and that
  /// has room: WebSockets use at most half of a connection's streams, and leave one of
  /// client_options::connections_per_host to requests. Otherwise HTTP/1.1, also if the server
  /// refuses the stream unprocessed.
  if_connected,
  /// Also on a new connection, and never by HTTP/1.1. Fails with websocket_errc::bad_handshake if
  /// the server does not allow it. For http and ws URLs, http2_client_options::prior_knowledge must
  /// be set.
  always,
};

/// Options of one end of a WebSocket.
struct websocket_options {
  websocket_limits limits = {};
  websocket_timeouts timeouts = {};
  websocket_compression compression = {};
  /// The protocols that this side speaks above WebSocket, best first. A server selects the first
  /// one that the client offers, or none. See websocket::subprotocol().
  std::vector<std::string> subprotocols = {};

  /// Servers: the origins whose pages may connect, in the form of cors_options::origins:
  /// "https://example.org", "https://*.example.org" for one more label, or "*" for any. If empty, a
  /// page must come from the host that it connects to (the field Host), because browsers let any
  /// page connect anywhere, with the user's cookies. Clients that send no Origin are no browsers,
  /// and are let in. Others get 403, also pages of the origin "null", which any page can take on.
  std::vector<std::string> allowed_origins = {};

  /// Clients: fields to add to the request, such as Origin, Authorization or Cookie.
  http::fields fields = {};
  /// Clients: whether the WebSocket is a stream of HTTP/2.
  websocket_http2 http2 = websocket_http2::if_connected;
};

}  // namespace gyre::http
