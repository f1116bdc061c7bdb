// SPDX-License-Identifier: Apache-2.0
// websocket_pump: calls the handlers of a WebSocket whose transport coroutines drive: that of a
// client, or a stream of HTTP/2.
#pragma once

#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_handlers.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::http::detail {

/// Serves an open socket by callbacks until it ends. `output_limit`: see websocket_limits.
task<> run_handlers(websocket& socket, websocket_handlers handlers, std::size_t output_limit);

/// Two coroutines, of which one receives from a websocket, and one sends.
///
/// Thread-safety: the loop's thread.
class websocket_pump final : public websocket_connection {
 public:
  websocket_pump(websocket& socket, websocket_handlers handlers, std::size_t output_limit);
  websocket_pump(const websocket_pump&) = delete;
  websocket_pump& operator=(const websocket_pump&) = delete;
  ~websocket_pump() = default;

  task<> run();

  bool send(websocket_message message) override;
  bool send(prepared_message message) override;
  std::size_t pending_output() const noexcept override { return pending_output_; }
  void subscribe_to(websocket_broadcast& broadcast) override;
  void pause_reading() noexcept override;
  void resume_reading() noexcept override;
  bool is_open() const noexcept override;
  std::optional<close_code> close_status() const noexcept override {
    return socket_.close_status();
  }
  std::string_view close_reason() const noexcept override { return socket_.close_reason(); }
  std::string_view subprotocol() const noexcept override { return socket_.subprotocol(); }
  bool is_compressed() const noexcept override { return socket_.is_compressed(); }
  event_loop& loop() const override { return socket_.loop(); }

 private:
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

  void begin_close(close_code code, std::string_view reason) override;
  task<> serve(scope& tasks);
  task<> read();
  task<> write();
  task<> send_queue();
  bool may_queue(std::size_t size) noexcept;
  void count_output(std::size_t size) noexcept;
  void update_reading() noexcept;
  template <class Call>
  void call(Call handler);
  std::error_code reason_of_end(const std::exception_ptr& error) const noexcept;

  websocket& socket_;
  websocket_callbacks callbacks_;
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

}  // namespace gyre::http::detail
