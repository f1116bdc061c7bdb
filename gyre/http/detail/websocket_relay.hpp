// SPDX-License-Identifier: Apache-2.0
// websocket_relay: a WebSocket of handlers on a websocket_transport: that of a client, a stream of
// HTTP/2, or a server's request that must stay.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/input_receiver.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_driver.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

namespace gyre::http::detail {

/// Two coroutines, of which one moves the bytes that come, and one those that leave. They end when
/// the socket has ended and its output was sent.
///
/// Thread-safety: the loop's thread.
class websocket_relay final : public websocket_driver, input_receiver {
 public:
  /// `server_stop`: its stop makes the socket go away; it must outlive the relay.
  websocket_relay(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                  websocket_role role, const websocket_options& options,
                  websocket_agreement agreement, websocket_callbacks callbacks,
                  inplace_stop_token server_stop);
  websocket_relay(const websocket_relay&) = delete;
  websocket_relay& operator=(const websocket_relay&) = delete;
  ~websocket_relay();

  /// Calls the handlers until the socket has ended. A stop closes the socket with Close 1001.
  /// Errors: the exceptions of handlers.
  task<> run();

  event_loop& loop() const override { return loop_; }

 private:
  struct begin_stop {
    websocket_relay* relay;
    void operator()() const noexcept { relay->begin_going_away(); }
  };
  class wait_scope;

  // websocket_driver
  io::buffer& output() override;
  std::size_t unsent_output() const noexcept override { return 0; }
  std::size_t queued_output() const noexcept override { return queue_.size() + sending_.size(); }
  void flush(std::span<const std::byte> bytes) override;
  void flush_output() noexcept override { must_send_.set(); }
  bool schedule_flush() noexcept override;
  void notify_when_taken() noexcept override {}  // it is always called
  bool can_send() const noexcept override { return !has_failed_; }
  void pause_input() noexcept override { may_receive_.reset(); }
  void resume_input() noexcept override { may_receive_.set(); }
  void deliver_rest() noexcept override {}  // receive() finds the rest
  bool is_stopping() const noexcept override { return server_stop_token_.stop_requested(); }
  void abort() noexcept override;
  void conclude(const std::exception_ptr& failure, bool has_left) noexcept override;
  void close_when_sent() noexcept override;

  // input_receiver
  void on_input(io::input& input) override;
  void on_input_ended() noexcept override { wake_.set(); }

  task<> move_input();
  task<> receive();
  task<> wait_for_input();
  task<> await_close();
  task<> move_output();
  task<> send_queue();

  event_loop& loop_;
  const std::unique_ptr<websocket_transport> transport_;
  const inplace_stop_token server_stop_token_;
  io::buffer queue_{{.prepend = 0}};    // bytes that wait to be sent
  io::buffer sending_{{.prepend = 0}};  // bytes that are being sent; swapped with queue_
  auto_reset_event must_send_;
  auto_reset_event wake_;                 // ends the wait for input
  manual_reset_event may_receive_{true};  // reset while receiving is paused
  manual_reset_event output_ended_;       // set when move_output() has ended
  inplace_stop_source output_stop_;       // ends the output if the peer does not read it
  std::exception_ptr failure_;            // the exception of a handler, or of a stop
  bool is_waiting_ = false;               // whether wait_for_input() runs
  bool has_failed_ = false;               // whether nothing can be sent any more
  bool is_closing_ = false;               // whether the output ends
  bool awaits_close_ = false;             // whether the peer's Close is awaited after the end
  std::optional<inplace_stop_callback<begin_stop>> server_stop_;  // last: may call at once
};

}  // namespace gyre::http::detail
