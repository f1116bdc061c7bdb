// SPDX-License-Identifier: Apache-2.0
// websocket_protocol: a server's WebSocket of handlers, on a connection that HTTP/1.1 has left to
// it.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/detail/upgraded_request.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_clock.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace gyre::http::detail {

/// The context of a tcp_connection after an upgrade. All handlers are called within its turns: of
/// input, of the timer, of low water.
///
/// | state | a message | the peer's Close | its FIN | the timer |
/// |---|---|---|---|---|
/// | open | on_message | replies, ends | ends | see websocket_clock |
/// | closing (1) | dropped | ends | ends | ends |
/// | going away (2) | on_message | ends | ends | ends |
/// | ended (3) | dropped | dropped | closes | - |
///
/// 1. After close(), and after a message above the limit of the output.
/// 2. After the server's stop has begun.
/// 3. on_close was called. Waits until the TCP connection has sent its output.
///
/// Thread-safety: the loop's thread.
/// Complexity: 208 bytes of the slab, beside those of the session, the handlers and the request.
class websocket_protocol final : public gyre::detail::slab_object,
                                 public connection_protocol,
                                 public websocket_connection,
                                 timer_operation {
 public:
  websocket_protocol(net::tcp_connection& tcp, server_shard& shard, upgraded_request request,
                     const websocket_options& options, websocket_agreement agreement,
                     websocket_callbacks callbacks);
  websocket_protocol(const websocket_protocol&) = delete;
  websocket_protocol& operator=(const websocket_protocol&) = delete;
  ~websocket_protocol() override;

  // connection_protocol
  void on_message(io::input& input) override;
  void on_peer_ended() override;
  void on_low_water() override;
  void on_closed() noexcept override;
  void begin_stop() noexcept override;
  void drain() override {}  // the stop waits for the request, which counts as work
  void flush_output() noexcept override;

  // websocket_connection
  bool send(websocket_message message) override;
  bool send(prepared_message message) override;
  std::size_t pending_output() const noexcept override;
  void subscribe_to(websocket_broadcast& broadcast) override;
  void pause_reading() noexcept override;
  void resume_reading() noexcept override;
  bool is_open() const noexcept override;
  std::optional<close_code> close_status() const noexcept override {
    return session_.received_close();
  }
  std::string_view close_reason() const noexcept override { return session_.received_reason(); }
  std::string_view subprotocol() const noexcept override { return session_.subprotocol(); }
  bool is_compressed() const noexcept override { return session_.is_compressed(); }
  event_loop& loop() const override { return shard_->loop(); }

 private:
  class broadcast_link;

  void begin_close(close_code code, std::string_view reason) override;
  template <class Work>
  void run_turn(Work work) noexcept;
  void receive(io::input& input);
  void send_frames(std::span<const std::byte> frames);
  bool may_send(std::size_t size) noexcept;
  void note_message() noexcept;
  void note_output() noexcept;
  void send_close(close_code code, std::string_view reason);
  void go_away();
  io::buffer& output() { return shard_->output_of(*this); }
  void flush(std::span<const std::byte> bytes = {});
  void flush_all();
  void report_written();
  void update_reading() noexcept;
  void wake_broadcasts() noexcept;
  std::size_t max_pending() const noexcept;
  // Whether time limits apply: not while nothing is read that would keep them.
  bool keeps_time() const noexcept { return is_closing_ || !(is_paused_ || is_full_); }
  void arm_timer() noexcept;
  void on_timer() noexcept;
  void act_at_deadline();
  void end(std::error_code reason, std::exception_ptr failure = {}) noexcept;
  void conclude(std::error_code reason, std::exception_ptr failure, bool has_left) noexcept;

  net::tcp_connection& tcp_;
  const std::shared_ptr<server_shard> shard_;  // a part of the core, which it keeps
  upgraded_request request_;
  websocket_callbacks callbacks_;
  std::unique_ptr<std::shared_ptr<broadcast_link>> broadcasts_;  // null without a subscription
  // The flags are in the padding of the two members before them.
  [[no_unique_address]] websocket_session session_;
  bool is_opened_ = false;  // whether on_open was called
  bool is_in_turn_ = false;
  bool is_paused_ = false;      // whether the program has paused receiving
  bool is_full_ = false;        // whether much output has paused receiving
  bool exceeds_limit_ = false;  // whether a send was above the limit
  [[no_unique_address]] websocket_clock clock_;
  bool is_closing_ = false;   // whether messages that come are dropped
  bool must_report_ = false;  // whether messages were sent since on_write_complete
  bool has_ended_ = false;
};

}  // namespace gyre::http::detail
