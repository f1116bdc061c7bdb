// SPDX-License-Identifier: Apache-2.0
// message_framing: how a message of HTTP/1 ends, and how far an exchange of messages has come.
//
// An exchange is a request and its response. Each side of it has three states, which do not depend
// on each other; message_reader and message_writer hold two of them.
//
// | reading             | writing                             | keep_alive                          |
// |---------------------|-------------------------------------|-------------------------------------|
// | `head` not read yet | `head` not decided on yet           | `kept` for another exchange         |
// | `awaiting_continue`, as the peer sends the body after 100 | `linger`: closed, the peer may send |
// |                     | `awaiting_continue` of the peer     | `close`: closed, the peer is silent |
// | `body` is coming    | `body` is being sent                |                                     |
// | `ended`             | `ended`                             |                                     |
//
// An interim response (1xx) leaves `reading` at `head`. A body may still be coming while the
// response is written, and the reverse: then the connection cannot be kept.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre::http::detail {

/// Memory for a body of which little has come: a peer may announce much, and send nothing.
inline constexpr std::size_t first_reservation = std::size_t{64} << 10;

/// How the end of a body is found.
enum class body_kind : std::uint8_t { none, length, chunked, until_close };

/// The framing of a body, and what the fields say of the connection.
struct message_framing {
  body_kind body = body_kind::none;
  std::uint64_t length = 0;        ///< bytes of a body of kind `length`
  std::uint8_t minor_version = 1;  ///< 0 or 1; later ones count as 1
  /// Whether the connection lasts: `Connection: close` is absent, and in 1.0 keep-alive is there.
  bool keep_alive = true;
  /// `Connection: upgrade` and an Upgrade field are there.
  bool upgrade = false;
};

/// How much of the peer's message has been read.
enum class reading : std::uint8_t { head, awaiting_continue, body, ended };

/// How much of the own message has been written.
enum class writing : std::uint8_t { head, awaiting_continue, body, ended };

/// The connection's future after the exchange.
enum class keep_alive : std::uint8_t {
  kept,
  linger,  ///< it is closed, and the peer may still send: its FIN is awaited
  close,   ///< it is closed, and the peer sends no more
};

}  // namespace gyre::http::detail
