// SPDX-License-Identifier: Apache-2.0
// websocket: one end of a WebSocket (RFC 6455), of a server or a client.
//
//     gyre::task<> echo(gyre::http::websocket& socket) {
//       while (auto message = co_await socket.receive()) co_await socket.send(*message);
//     }
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/websocket_receive.hpp>
#include <gyre/http/detail/websocket_send.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::http {

class websocket;

namespace detail {
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is not deleted by its base
class websocket_core;
class served_function;
struct websocket_releaser {
  void operator()(websocket_core* core) const noexcept;
};
using websocket_pointer = std::unique_ptr<websocket_core, websocket_releaser>;
task<> serve_websocket(websocket socket, move_only_function<task<>(websocket&)> serve);
}  // namespace detail

/// One end of a WebSocket: accept_websocket() makes a server's, connect_websocket() a client's.
///
/// | while a receive is awaited, the socket also | see |
/// |---|---|
/// | answers pings; of many at once, only as many as fit into 2 KiB of pongs, and the newest | |
/// | sends pings to a silent peer, and fails if it stays silent | websocket_timeouts |
/// | replies to the peer's Close frame, after which receives give nothing | close_status() |
/// | begins to close with 1001 when the server's stop() begins | http::server |
///
/// So a program that only sends must still receive, in a second coroutine.
///
/// Thread-safety: the loop of the connection. One coroutine may receive while others send and
/// close; messages of several senders do not mix, and are sent first come, first served. For
/// messages from other threads use a websocket_broadcast or a channel.
/// Lifetime: the destructor ends the connection without a Close frame, unless close() was awaited
/// before. A server's socket is closed when its function has ended. It must not be destroyed or
/// moved while one of its tasks runs.
/// Errors: receives and sends throw std::system_error: websocket_errc; errors of the connection;
/// io::errc::not_open for a moved-from socket. Once a receive has failed, the connection cannot be
/// used any more. A coroutine whose peer has disconnected may be asked to stop instead.
/// Complexity: a receive or a send allocates nothing; over other transports than a server's
/// connection of HTTP/1.1, a coroutine frame of the slab if it has to wait. Messages and frames are
/// in memory that the sockets of a thread share, which keeps up to four times 128 KiB of it for
/// them; a socket that waits for a message holds none of it. A server's idle socket holds 256 bytes
/// above its TCP connection's, beside the frame of the function that serves it, and 64 more if the
/// function has captures; it holds more where a websocket_connection does.
class websocket {
 public:
  websocket(websocket&& other) noexcept;
  websocket& operator=(websocket&& other) noexcept;
  ~websocket();

  /// Awaited, receives the next whole message; nothing once the peer has closed the socket. A
  /// stopped receive has lost no byte. After 128 messages without a wait, it yields to the loop.
  /// Errors also: io::errc::busy while another coroutine receives.
  [[nodiscard]] detail::websocket_receive receive();
  /// Receives the next piece of a message, of at most 64 KiB, as soon as there is one. The last one
  /// may be empty. Continue with receive_piece() until websocket_message::is_last.
  [[nodiscard]] detail::websocket_receive receive_piece();

  /// Sends a message, and waits while the peer does not read: as body_writer::write() waits in a
  /// server, and until the system takes the bytes in a client. The bytes must outlive the await. A
  /// send that was stopped may have sent a part of its message; then the socket fails. Over a
  /// server's connection of HTTP/1.1, the message is sent nevertheless.
  /// Errors also: std::invalid_argument, from the call, for a text that is not UTF-8.
  [[nodiscard]] detail::websocket_send send_text(std::string_view text);
  /// Sends a message of bytes, as send_text() does.
  [[nodiscard]] detail::websocket_send send_binary(std::span<const std::byte> bytes);
  /// Sends a received message to this or another socket.
  [[nodiscard]] detail::websocket_send send(websocket_message message);
  /// Sends an encoded message, of which the task owns a share.
  [[nodiscard]] task<> send(prepared_message message);

  /// Sends a Close frame, drops messages that still come, and waits for the peer's Close frame for
  /// websocket_timeouts::close. If another coroutine receives, that one gets the messages. Further
  /// calls only wait. Never fails because of the peer.
  /// Errors: std::invalid_argument, from the call, for a code that must not be sent, and for a
  /// reason that is not UTF-8 or has more than 123 bytes.
  [[nodiscard]] task<> close(close_code code = close_code::normal, std::string_view reason = {});

  /// Whether messages may be sent: neither side has begun to close, and nothing has failed.
  [[nodiscard]] bool is_open() const noexcept;
  /// The code that the peer has sent in its Close frame; close_code::none if the frame had none.
  /// Nothing before the frame has come.
  [[nodiscard]] std::optional<close_code> close_status() const noexcept;
  /// The reason that the peer has sent in its Close frame.
  [[nodiscard]] std::string_view close_reason() const noexcept;
  /// The subprotocol that the server has selected; empty if none.
  [[nodiscard]] std::string_view subprotocol() const noexcept;
  /// Whether both sides have agreed on permessage-deflate.
  [[nodiscard]] bool is_compressed() const noexcept;
  /// Throws io::errc::not_open for a moved-from socket.
  [[nodiscard]] event_loop& loop() const;

  /// Sends several encoded messages, of which small ones share a send. They must outlive the await.
  [[nodiscard]] task<> send_all(std::span<const prepared_message> messages);

  /// Called by accept_websocket() and connect_websocket() only.
  explicit websocket(detail::websocket_pointer core) noexcept;

 private:
  friend detail::served_function;
  friend task<> detail::serve_websocket(websocket socket,
                                        move_only_function<task<>(websocket&)> serve);
  detail::websocket_core& opened() const;

  detail::websocket_pointer core_;
};

}  // namespace gyre::http
