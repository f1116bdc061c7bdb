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

/// The websocket that the function gets. A base of served_websocket, because the coroutine needs
/// it.
class served_function {
 protected:
  using function = move_only_function<task<>(websocket&)>;

  explicit served_function(websocket_core& core) noexcept : handle_(websocket_pointer(&core)) {}
  ~served_function() { static_cast<void>(handle_.core_.release()); }
  /// Returns the coroutine of `serve`; one that throws if `serve` has thrown.
  task<> call(function& serve);

 private:
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
class served_websocket final : public websocket_protocol<websocket_core>,
                               served_function,
                               gyre::detail::started_task<served_websocket> {
  using work = gyre::detail::started_task<served_websocket>;

 public:
  using served_function::function;
  using phase = served_state::served_phase;

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

  // websocket_core
  bool ends_before(const task_context& context) const noexcept override;
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
  function& keep(function& serve);
  void hold(io::input& input);
  void request_stop() noexcept;
  bool runs() const noexcept {
    return served_.phase == phase::running || served_.phase == phase::ended;
  }
  io::buffer* held() const noexcept {
    return existing_extras() != nullptr ? existing_extras()->held.get() : nullptr;
  }
  bool has_held_bytes() const noexcept { return held() != nullptr && !held()->empty(); }
  bool is_output_high() const noexcept;
  task<> await_output();

  inplace_stop_source stop_source_;
};

}  // namespace gyre::http::detail
