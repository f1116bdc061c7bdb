// SPDX-License-Identifier: Apache-2.0
// websocket_pump: a WebSocket of coroutines on a websocket_transport: that of a client, a stream of
// HTTP/2, or a server's request that must stay.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/transport_driver.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/input.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

namespace gyre::http::detail {

/// Has no coroutine of its own: the program's coroutine that receives moves the bytes that come,
/// and control frames; those that send move the bytes of their messages.
///
/// Thread-safety: the loop's thread.
class websocket_pump final : public transport_driver<websocket_core> {
 public:
  websocket_pump(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                 websocket_role role, const websocket_options& options,
                 websocket_agreement agreement, inplace_stop_token server_stop);
  websocket_pump(const websocket_pump&) = delete;
  websocket_pump& operator=(const websocket_pump&) = delete;
  ~websocket_pump() { leave(); }

 private:
  class send_scope;

  // websocket_core
  void drop() noexcept override { delete this; }
  std::optional<task<>> receive_next() override { return receive_message(); }
  std::optional<task<>> finish_send(std::size_t size) override;
  task<> finish_close() override;
  bool has_last_output() const noexcept override {
    return has_ended() && !drops_messages() && has_queued_output() && can_send();
  }

  // websocket_driver
  void deliver_open() override {}
  void receive_held() override;
  void on_turn_ended() noexcept override;
  void pause_input() noexcept override {}
  void resume_input() noexcept override {}
  void abort() noexcept override;
  void conclude(const std::exception_ptr& /*failure*/, bool /*has_left*/) noexcept override {}
  void close_when_sent() noexcept override {}

  // transport_driver
  void on_output() noexcept override {}
  bool schedule_flush() noexcept override { return true; }  // the sender sends
  void on_input(io::input& input) override;

  task<> receive_message();
  task<> send_all_output();

  std::uint64_t sent_ = 0;   // bytes that the transport has taken
  bool is_sending_ = false;  // whether a coroutine sends
};

}  // namespace gyre::http::detail
