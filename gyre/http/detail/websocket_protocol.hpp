// SPDX-License-Identifier: Apache-2.0
// websocket_protocol: a server's WebSocket on a connection that HTTP/1.1 has left to it.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/detail/upgraded_request.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <cstddef>
#include <exception>
#include <span>
#include <utility>

namespace gyre::http::detail {

/// The context of a tcp_connection after an upgrade. `Face`: called_websocket or websocket_core.
///
/// Thread-safety: the loop's thread.
template <class Face>
class websocket_protocol : public gyre::detail::slab_object,
                           public connection_protocol,
                           public Face {
 public:
  websocket_protocol(const websocket_protocol&) = delete;
  websocket_protocol& operator=(const websocket_protocol&) = delete;
  ~websocket_protocol() override = default;

  // connection_protocol
  void on_message(io::input& input) override { this->take_input(input); }
  void on_peer_ended() override;
  void on_low_water() override { this->on_output_taken(); }
  void on_closed() noexcept override { this->on_disconnected(); }
  void begin_stop() noexcept override;
  void drain() override {}  // the stop waits for the request, which counts as work
  void flush_output() noexcept override;

  event_loop& loop() const override { return shard_->loop(); }

 protected:
  /// `program`: the first arguments of the face.
  template <class... Program>
  websocket_protocol(net::tcp_connection& tcp, server_shard& shard, upgraded_request request,
                     const websocket_options& options, websocket_agreement agreement,
                     Program&&... program)
      : Face(std::forward<Program>(program)..., shard.loop().recent_time(), websocket_role::server,
             options, std::move(agreement)),
        tcp_(tcp),
        shard_(shard),
        request_(std::move(request)) {}

  net::tcp_connection& tcp() const noexcept { return tcp_; }
  server_shard& shard() const noexcept { return *shard_; }
  bool is_stopping() const noexcept override { return shard_->core().is_draining(); }
  void conclude(const std::exception_ptr& failure, bool has_left) noexcept override;
  void close_when_sent() noexcept override;
  /// Called by the destructor of the derived class, and when the connection has gone: the socket
  /// ends if it has not ended.
  void leave() noexcept;

 private:
  // websocket_driver
  io::buffer& output() override { return shard_->output_of(*this); }
  std::size_t unsent_output() const noexcept override {
    return shard_->output_owner == this ? shard_->output.size() : 0;
  }
  std::size_t queued_output() const noexcept override { return tcp_.pending_output(); }
  void flush(std::span<const std::byte> bytes) override;
  bool schedule_flush() noexcept override {
    return shard_->output_owner != this || shard_->schedule_flush();
  }
  void notify_when_taken() noexcept override { tcp_.notify_at_low_water(); }
  bool can_send() const noexcept override { return tcp_.can_send(); }
  void pause_input() noexcept override { tcp_.pause_reading(); }
  void resume_input() noexcept override { tcp_.resume_reading(); }
  void deliver_rest() noexcept override;
  void abort() noexcept override { tcp_.abort(); }

  net::tcp_connection& tcp_;
  const shard_pointer shard_;
  upgraded_request request_;
};

extern template class websocket_protocol<called_websocket>;
extern template class websocket_protocol<websocket_core>;

/// The server's WebSocket of handlers on a TCP connection.
///
/// Complexity: 176 bytes of the slab, beside those of the session, the handlers and the request.
class handler_protocol final : public websocket_protocol<called_websocket> {
 public:
  handler_protocol(websocket_callbacks callbacks, net::tcp_connection& tcp, server_shard& shard,
                   upgraded_request request, const websocket_options& options,
                   websocket_agreement agreement)
      : websocket_protocol(tcp, shard, std::move(request), options, std::move(agreement),
                           std::move(callbacks)) {}
  ~handler_protocol() override { leave(); }
};

}  // namespace gyre::http::detail
