// SPDX-License-Identifier: Apache-2.0
// served_websocket: a server's WebSocket that a function of the program serves, on a connection
// that HTTP/1.1 has left to it.
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/detail/upgraded_request.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_protocol.hpp>
#include <gyre/http/websocket.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/detail/started_task.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>

namespace gyre::http::detail {

/// The function, and the websocket that it gets. A base of served_websocket, because the coroutine
/// needs it.
class served_function {
 protected:
  using function = move_only_function<task<>(websocket&)>;

  served_function(function serve, websocket_core& core) noexcept;
  ~served_function() { static_cast<void>(handle_.core_.release()); }
  /// Returns the function's coroutine; one that throws if the function has thrown.
  task<> call();

  function serve_;
  websocket handle_;
};

/// The context of a tcp_connection after an upgrade, and the function's coroutine. A message that
/// comes while a receive waits resumes the coroutine within the turn. Bytes that come while none
/// waits are held, and pause the connection when they are many, so that the peer must wait.
///
/// | event | while the function runs | after it |
/// |---|---|---|
/// | the socket ends | receives end; the connection stays | the connection is closed |
/// | the peer ends its side | so do receives, and the function's stop is requested | the same |
/// | the connection ends | the same; the object stays | the object is destroyed |
///
/// Thread-safety: the loop's thread.
class served_websocket final : public awaited_websocket<websocket_protocol>,
                               served_function,
                               gyre::detail::started_task<served_websocket> {
  using work = gyre::detail::started_task<served_websocket>;

 public:
  using served_function::function;

  served_websocket(function serve, net::tcp_connection& connection, server_shard& shard,
                   upgraded_request request, const websocket_options& options,
                   websocket_agreement agreement);
  served_websocket(const served_websocket&) = delete;
  served_websocket& operator=(const served_websocket&) = delete;
  ~served_websocket() override;

  // connection_protocol
  void on_message(io::input& input) override;
  void on_peer_ended() override;
  void on_low_water() override;
  void on_closed() noexcept override;
  void release() noexcept override;

 private:
  friend work;

  enum class phase : std::uint8_t {
    waiting,  // the function was not called
    running,
    ended,      // its coroutine has ended in a turn, which concludes it
    concluded,  // the records were made, or will be at the end of the socket
  };

  // websocket_core
  void drop() noexcept override;
  std::optional<task<>> receive_next() override;
  std::optional<task<>> finish_send(std::size_t size) override;
  task<> finish_close() override { co_return; }

  // websocket_driver
  void deliver_open() override;
  void receive_held() override;
  void on_turn_ended() noexcept override;
  void conclude(const std::exception_ptr& failure, bool has_left) noexcept override;
  void close_when_sent() noexcept override;

  void on_work_ended() noexcept;
  void conclude_work() noexcept;
  void hold(io::input& input);
  void request_stop() noexcept;
  bool runs() const noexcept { return phase_ == phase::running || phase_ == phase::ended; }
  bool has_held_bytes() const noexcept { return held_ != nullptr && !held_->empty(); }
  bool is_output_high() const noexcept;
  task<> await_output();

  std::unique_ptr<io::buffer> held_;  // made by the first bytes that wait for a receive
  inplace_stop_source stop_source_;
  std::uint32_t sent_in_a_row_ = 0;  // bytes since a send has waited
  phase phase_ = phase::waiting;
  bool is_input_paused_ = false;  // whether many bytes are held
  bool has_peer_ended_ = false;   // while bytes are held
  bool has_left_ = false;         // whether the connection has ended
  bool is_released_ = false;      // whether the object destroys itself after the function
  bool is_recorded_ = false;      // whether the records of the request were made
};

}  // namespace gyre::http::detail
