// SPDX-License-Identifier: Apache-2.0
// message_framing: how a message of HTTP/1 ends, and how far an exchange of messages has come.
//
// An exchange is a request and its response. Each side of the connection has three states, which do
// not depend on each other; message_reader and message_writer hold two of them.
//
// | reading             | writing             | keep_alive                              |
// |---------------------|---------------------|-----------------------------------------|
// | `head`              | `head`              | `kept`: open for another exchange       |
// | `awaiting_continue` | `awaiting_continue` | `linger`: closed, the peer may send     |
// | `body`              | `body`              | `close`: closed, the peer sends no more |
// | `ended`             | `ended`             |                                         |
//
// In awaiting_continue, the body is sent after its recipient has sent "100 Continue". An interim
// response (1xx) leaves `reading` at `head`. A body may still be received while the response is
// written, and a response may be received while the body of the request is written. A connection
// can be kept only if both messages have ended.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre::http::detail {

/// The memory that is reserved for a body of which little has come: a peer may announce a long
/// body, and send nothing.
inline constexpr std::size_t first_reservation = std::size_t{64} << 10;

/// The way in which a recipient finds the end of a body.
enum class body_kind : std::uint8_t { none, length, chunked, until_close };

/// The framing of a body, and the connection options of a message.
struct message_framing {
  body_kind body = body_kind::none;
  std::uint64_t length = 0;        ///< bytes of a body of kind `length`
  std::uint8_t minor_version = 1;  ///< 0 or 1; a later version counts as 1
  /// Whether the connection may be kept: there is no `Connection: close`, and in HTTP/1.0 there is
  /// `Connection: keep-alive`.
  bool keep_alive = true;
  /// Whether `Connection: upgrade` and an Upgrade field are there, in HTTP/1.1.
  bool upgrade = false;
};

/// The progress of reading the peer's message.
enum class reading : std::uint8_t { head, awaiting_continue, body, ended };

/// The progress of writing the program's own message.
enum class writing : std::uint8_t { head, awaiting_continue, body, ended };

/// The connection's future after the exchange.
enum class keep_alive : std::uint8_t {
  kept,
  linger,  ///< closed; the peer may still send, so that its FIN is awaited
  close,   ///< closed without waiting, because the peer sends no more
};

}  // namespace gyre::http::detail
