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
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::http {

class websocket_broadcast;

namespace detail {
/// Serves an open socket by callbacks until it ends. `output_limit`: see websocket_limits.
task<> run_handlers(websocket& socket, websocket_handlers handlers, std::size_t output_limit);
}  // namespace detail

/// An open WebSocket that calls websocket_handlers. It is driven by two coroutines of the library,
/// of which one receives from a websocket, and one sends.
///
/// While more than 64 KiB, or half of websocket_limits::output, wait to be sent, it receives
/// nothing, so that a peer that sends and does not read has to wait.
///
/// Thread-safety: the loop of the connection. From other threads, post to loop() a task that looks
/// the connection up, or use a websocket_broadcast.
/// Lifetime: valid from the call of on_open until that of on_close has returned.
/// Errors: sends throw std::bad_alloc; others go to on_close.
/// Complexity: a message is copied, and allocates nothing in steady state.
class websocket_connection {
 public:
  websocket_connection(const websocket_connection&) = delete;
  websocket_connection& operator=(const websocket_connection&) = delete;

  /// Queues a message, which need not outlive the call. Returns true if it was accepted, which does
  /// not mean delivered, and false if not is_open(). A message above websocket_limits::output also
  /// returns false, and ends the connection: on_close gets io::errc::output_limit.
  /// Errors also: std::invalid_argument for a text that is not UTF-8.
  bool send_text(std::string_view text);
  /// Queues bytes, as send_text() does a text.
  bool send_binary(std::span<const std::byte> bytes);
  /// Queues a received message.
  bool send(websocket_message message);
  /// Queues a share of an encoded message, without a copy of its bytes.
  bool send(prepared_message message);
  /// Returns the number of bytes that wait to be sent. Each message counts 40 more than it has.
  [[nodiscard]] std::size_t pending_output() const noexcept { return pending_output_; }

  /// Sends also the messages of `broadcast` from now on, as websocket_broadcast::forward_to() does,
  /// until the socket or the broadcast ends. Call it after on_open has begun, and not in on_close.
  void subscribe_to(websocket_broadcast& broadcast);

  /// Pauses receiving: on_message is not called until resume_reading(). Meanwhile the peer's pings
  /// and its Close frame are not read either. Idempotent.
  void pause_reading() noexcept;
  void resume_reading() noexcept;

  /// Closes the socket after the messages that wait: on_message is not called any more, and
  /// on_close when the peer's Close frame has come, or websocket_timeouts::close has passed.
  /// Further calls do nothing.
  /// Errors: those that websocket::close() throws from the call.
  void close(close_code code = close_code::normal, std::string_view reason = {});

  /// Whether messages may be sent.
  [[nodiscard]] bool is_open() const noexcept;
  /// Return the results of websocket's functions of the same names.
  [[nodiscard]] std::optional<close_code> close_status() const noexcept {
    return socket_.close_status();
  }
  [[nodiscard]] std::string_view close_reason() const noexcept { return socket_.close_reason(); }
  [[nodiscard]] std::string_view subprotocol() const noexcept { return socket_.subprotocol(); }
  [[nodiscard]] bool is_compressed() const noexcept { return socket_.is_compressed(); }
  [[nodiscard]] event_loop& loop() const { return socket_.loop(); }

 private:
  friend task<> detail::run_handlers(websocket& socket, websocket_handlers handlers,
                                     std::size_t output_limit);

  // A message that waits to be sent. The bytes of one that is not prepared are in a buffer that all
  // of these share.
  struct queued_message {
    std::size_t size = 0;
    websocket_kind kind = websocket_kind::text;
    std::optional<prepared_message> prepared = {};
  };
  struct output_queue {
    std::vector<queued_message> messages = {};
    io::buffer bytes{{.prepend = 0}};
  };

  websocket_connection(websocket& socket, websocket_handlers handlers,
                       std::size_t output_limit) noexcept;
  ~websocket_connection() = default;

  task<> run();
  task<> serve(scope& tasks);
  task<> read();
  task<> write();
  task<> send_queue();
  bool may_queue(std::size_t size) noexcept;
  void count_output(std::size_t size) noexcept;
  void update_reading() noexcept;
  template <class Handler, class... Arguments>
  void call(Handler& handler, Arguments... arguments);
  std::error_code reason_of_end(const std::exception_ptr& error) const noexcept;

  websocket& socket_;
  websocket_handlers handlers_;
  const std::size_t output_limit_;
  scope* tasks_ = nullptr;  // null unless the socket is served
  output_queue queue_;
  output_queue sending_;  // the messages that are being sent; swapped with queue_
  std::size_t pending_output_ = 0;
  std::optional<task<>> closing_;  // the task of close(), awaited after the last message
  auto_reset_event must_write_;
  manual_reset_event may_read_{true};
  bool is_paused_ = false;      // whether the program has paused receiving
  bool exceeds_limit_ = false;  // whether a send was above the limit
  std::exception_ptr failure_;  // the exception that a callback has thrown
};

}  // namespace gyre::http
