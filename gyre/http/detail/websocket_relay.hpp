// SPDX-License-Identifier: Apache-2.0
// websocket_relay: a WebSocket of handlers on a websocket_transport: that of a client, a stream of
// HTTP/2, or a server's request that must stay.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/transport_driver.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/input.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <exception>
#include <memory>

namespace gyre::http::detail {

/// Two coroutines, of which one moves the bytes that come, and one those that leave. They end when
/// the socket has ended and its output was sent.
///
/// Thread-safety: the loop's thread.
class websocket_relay final : public transport_driver<called_websocket> {
 public:
  websocket_relay(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                  websocket_role role, const websocket_options& options,
                  websocket_agreement agreement, websocket_callbacks callbacks,
                  inplace_stop_token server_stop);
  websocket_relay(const websocket_relay&) = delete;
  websocket_relay& operator=(const websocket_relay&) = delete;
  ~websocket_relay() { leave(); }

  /// Calls the handlers until the socket has ended. A stop closes the socket with Close 1001.
  /// Errors: the exceptions of handlers.
  task<> run();

 private:
  // websocket_driver
  void pause_input() noexcept override { may_receive_.reset(); }
  void resume_input() noexcept override { may_receive_.set(); }
  void abort() noexcept override;
  void conclude(const std::exception_ptr& failure, bool has_left) noexcept override;
  void close_when_sent() noexcept override;

  // transport_driver
  void on_output() noexcept override { must_send_.set(); }
  // The bytes stay in the transport, from which the coroutine takes them in a turn of its own:
  // handlers may end everything, which the caller uses still.
  void on_input(io::input& /*input*/) override { wake(); }

  task<> move_input();
  task<> receive_all();
  task<> await_close();
  task<> move_output();

  auto_reset_event must_send_;
  manual_reset_event may_receive_{true};  // reset while receiving is paused
  manual_reset_event output_ended_;       // set when move_output() has ended
  inplace_stop_source output_stop_;       // ends the output if the peer does not read it
  std::exception_ptr failure_;            // the exception of a handler, or of a stop
  bool is_closing_ = false;               // whether the output ends
  bool awaits_close_ = false;             // whether the peer's Close is awaited after the end
};

}  // namespace gyre::http::detail
