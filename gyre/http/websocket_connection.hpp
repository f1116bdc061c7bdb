// SPDX-License-Identifier: Apache-2.0
// websocket_connection: a callback-driven WebSocket of a server or a client.
//
//     handlers.on_open([&](gyre::http::websocket_connection& socket) { guests.insert(&socket); });
//     handlers.on_close([&](gyre::http::websocket_connection& socket, std::error_code) {
//       guests.erase(&socket);
//     });
//
//     for (auto* each : guests) each->send_text("score 3:1");  // in turns of their loop
#pragma once

#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_message.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace gyre {
class event_loop;
}  // namespace gyre

namespace gyre::http {

class websocket_broadcast;

/// An open WebSocket that calls websocket_handlers. Over HTTP/1.1, a server's handlers are called
/// straight from the connection of TCP, of which the HTTP connection leaves nothing. Between a
/// client, or a stream of HTTP/2, and its handlers, two coroutines of the library move the bytes.
///
/// While more than 64 KiB, or half of websocket_limits::output, wait to be sent, it receives
/// nothing, so that a peer that sends and does not read has to wait.
///
/// Thread-safety: the loop of the connection. From other threads, post to loop() a task that looks
/// the connection up, or use a websocket_broadcast.
/// Lifetime: valid from the call of on_open until that of on_close has returned.
/// Errors: sends throw std::bad_alloc; others go to on_close.
/// Complexity: a message allocates nothing in steady state. A server's idle socket holds at most
/// 208 bytes above its TCP connection's, if its only handler is on_message with at most 24 bytes of
/// captures; each other handler counts 32 bytes. It holds the head of the request, too, if the
/// server has on_access(), on_error() or counts_routes, and some KiB if a middleware has attached
/// something to the request, if requests have ids, or while tasks are recorded.
class websocket_connection {
 public:
  websocket_connection(const websocket_connection&) = delete;
  websocket_connection& operator=(const websocket_connection&) = delete;

  /// Sends a message, which need not outlive the call. Returns true if it was accepted, which does
  /// not mean delivered, and false if not is_open(). A message that would make more than
  /// websocket_limits::output wait also returns false, and ends the connection: on_close gets
  /// io::errc::output_limit.
  /// Errors also: std::invalid_argument for a text that is not UTF-8.
  bool send_text(std::string_view text);
  /// Sends bytes, as send_text() does a text.
  bool send_binary(std::span<const std::byte> bytes);
  /// Sends a received message to the peer, as send_text() does a text.
  virtual bool send(websocket_message message) = 0;
  /// Sends a message that prepared_message has encoded, as send_text() does a text.
  virtual bool send(prepared_message message) = 0;
  /// Returns the number of bytes that wait to be sent, those of the frames' headers included.
  [[nodiscard]] virtual std::size_t pending_output() const noexcept = 0;

  /// Sends also the messages of `broadcast` from now on, as websocket_broadcast::forward_to() does,
  /// until the socket or the broadcast ends. Call it after on_open has begun, and not in on_close.
  virtual void subscribe_to(websocket_broadcast& broadcast) = 0;

  /// Pauses receiving: on_message is not called until resume_reading(). Meanwhile the peer's pings
  /// and its Close frame are not read either. Idempotent.
  virtual void pause_reading() noexcept = 0;
  virtual void resume_reading() noexcept = 0;

  /// Closes the socket after the messages that wait: on_message is not called any more, and
  /// on_close when the peer's Close frame has come, or websocket_timeouts::close has passed.
  /// Further calls do nothing.
  /// Errors: those that websocket::close() throws from the call.
  void close(close_code code = close_code::normal, std::string_view reason = {}) {
    begin_close(code, reason);
  }

  /// Whether messages may be sent.
  [[nodiscard]] virtual bool is_open() const noexcept = 0;
  /// Return the results of websocket's functions of the same names.
  [[nodiscard]] virtual std::optional<close_code> close_status() const noexcept = 0;
  [[nodiscard]] virtual std::string_view close_reason() const noexcept = 0;
  [[nodiscard]] virtual std::string_view subprotocol() const noexcept = 0;
  [[nodiscard]] virtual bool is_compressed() const noexcept = 0;
  [[nodiscard]] virtual event_loop& loop() const = 0;

 protected:
  websocket_connection() = default;
  ~websocket_connection() = default;

 private:
  virtual void begin_close(close_code code, std::string_view reason) = 0;
};

}  // namespace gyre::http
