// SPDX-License-Identifier: Apache-2.0
// websocket_agreement, accept_key_of, …: the opening handshake of a WebSocket (RFC 6455, 4, and
// RFC 7692), without I/O.
#pragma once

#include <gyre/http/fields.hpp>
#include <gyre/http/websocket_options.hpp>

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// The parameters of permessage-deflate on which both sides have agreed.
struct deflate_agreement {
  unsigned window_bits = 15;  ///< of this side
  unsigned peer_window_bits = 15;
  bool keeps_context = true;
  bool keeps_peer_context = true;

  friend bool operator==(const deflate_agreement&, const deflate_agreement&) = default;
};

/// The outcome of a handshake.
struct websocket_agreement {
  std::optional<deflate_agreement> deflate = {};
  std::string subprotocol = {};
};

/// Throws std::invalid_argument, which names `owner`, for options out of range.
void check_websocket_options(const websocket_options& options, const char* owner);
void check_compression(const websocket_compression& compression, const char* owner);

/// Whether `key` is a value of Sec-WebSocket-Key: 16 bytes in Base64.
bool is_websocket_key(std::string_view key);
/// Returns the value of Sec-WebSocket-Accept for a key. Throws std::bad_alloc.
std::string accept_key_of(std::string_view key);

/// Whether a page of the origin in `fields` may connect to `host`. Requests without an origin may.
bool allows_origin(const field_list& fields, std::string_view host,
                   std::span<const std::string> allowed_origins);

/// Returns the first of `supported` that a client offers; empty if there is none.
std::string select_subprotocol(const field_list& request_fields,
                               std::span<const std::string> supported);

/// A server's reply to the offers of a client.
struct deflate_reply {
  deflate_agreement agreement;
  std::string extension;  ///< the value of Sec-WebSocket-Extensions
};
/// Returns the reply to the first offer that can be accepted; nothing if there is none.
std::optional<deflate_reply> accept_deflate_offer(const field_list& request_fields,
                                                  const websocket_compression& compression);

/// Returns the value of Sec-WebSocket-Extensions of a client's request.
std::string make_deflate_offer(const websocket_compression& compression);
/// Reads the server's reply to make_deflate_offer(). Returns an agreement, or nothing if the server
/// declines. Errors: a text that says why the reply breaks the protocol.
std::expected<std::optional<deflate_agreement>, std::string> read_deflate_reply(
    const field_list& response_fields, const websocket_compression& compression, bool was_offered);

}  // namespace gyre::http::detail
