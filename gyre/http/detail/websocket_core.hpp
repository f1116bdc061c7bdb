// SPDX-License-Identifier: Apache-2.0
// websocket_core: joins the frames of a WebSocket with its transport and its time limits.
//
// While a receive waits, bytes go from the transport to the session as they come, and wake the
// coroutine only when there is something for it. Meanwhile a timer runs: see websocket_clock. The
// timer, and a stop of the server, interrupt the wait; the receive then acts, and waits again. When
// the server's stop has begun, it sends Close 1001.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/input_receiver.hpp>
#include <gyre/http/detail/websocket_clock.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gyre::http::detail {

/// The state of a websocket, which documents the operations.
///
/// Thread-safety: the loop's thread.
class websocket_core final : timer_operation, input_receiver {
 public:
  /// `server_stop`: its stop makes the socket go away; it must outlive the core.
  websocket_core(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                 websocket_role role, const websocket_options& options,
                 websocket_agreement agreement, inplace_stop_token server_stop);
  websocket_core(const websocket_core&) = delete;
  websocket_core& operator=(const websocket_core&) = delete;
  ~websocket_core();

  task<std::optional<websocket_message>> receive(receiving mode);
  task<> send(websocket_kind kind, std::span<const std::byte> bytes);
  task<> send(prepared_message message);
  /// Sends the messages, several of them by one call of the transport.
  task<> send_all(std::span<const prepared_message> messages);
  /// Sends a Close frame, unless one was sent. Fails like close().
  task<> send_close(close_code code, std::string reason);
  task<> close(close_code code, std::string reason);

  bool is_open() const noexcept {
    return !session_.has_sent_close() && !has_failed_ && !has_ended_;
  }
  /// See websocket_transport::keeps_output().
  bool keeps_output() const noexcept { return transport_->keeps_output(); }
  const websocket_session& session() const noexcept { return session_; }
  std::string_view subprotocol() const noexcept { return session_.subprotocol(); }
  event_loop& loop() const noexcept { return loop_; }

 private:
  struct begin_going_away {
    websocket_core* core;
    void operator()() const noexcept { core->on_server_stop(); }
  };
  // Marks a running receive; at its end, the waits for it end.
  class receive_scope;
  class wait_scope;
  class write_scope;

  void on_input(io::input& input) override;
  void on_input_ended() noexcept override;
  void end_wait() noexcept;
  websocket_session::event next_event(receiving mode);
  void note_message_begin() noexcept;
  void check_transport();
  task<> flush_control();
  task<> on_interruption();
  task<> write_control(io::buffer& output);
  void check_may_send() const;
  void on_server_stop() noexcept;
  void on_timer() noexcept;
  void interrupt() noexcept;
  void arm_timer() noexcept;
  steady_time next_deadline() const noexcept { return clock_.deadline(session_.settings()); }
  task<> wait_for_receiver();
  duration close_limit() const noexcept;
  [[noreturn, gnu::cold]] void fail(websocket_errc reason);

  event_loop& loop_;
  const std::unique_ptr<websocket_transport> transport_;
  websocket_session session_;
  gyre::mutex write_mutex_;  // held while a message or control frames are written
  manual_reset_event receive_ended_;
  auto_reset_event wake_;                          // ends the wait of a receive
  std::optional<websocket_session::event> event_;  // has come while a receive waited
  receiving mode_ = receiving::messages;           // of the receive that waits
  websocket_clock clock_;
  bool is_waiting_ = false;      // whether a receive waits for bytes
  bool is_interrupted_ = false;  // whether the wait was interrupted
  bool is_receiving_ = false;
  bool closer_receives_ = false;   // whether the running receive is that of close()
  bool is_closers_call_ = false;   // whether the receive that begins is that of close()
  bool has_close_waiter_ = false;  // whether a coroutine waits for the end of a receive
  bool is_writing_ = false;
  bool goes_away_ = false;              // whether the server's stop has begun
  bool has_failed_ = false;             // whether nothing can be sent any more
  bool has_ended_ = false;              // whether nothing can be received any more
  std::uint32_t results_in_a_row_ = 0;  // receives since the last wait
  std::optional<inplace_stop_callback<begin_going_away>> server_stop_;  // last: may call at once
};

}  // namespace gyre::http::detail
