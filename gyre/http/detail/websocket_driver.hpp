// SPDX-License-Identifier: Apache-2.0
// websocket_driver: the life of a WebSocket, over any transport, and for any program.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/timer_operation.hpp>
#include <gyre/http/detail/websocket_clock.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_connection.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/input.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace gyre::http {

class websocket;

namespace detail {

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is not deleted by its base
class websocket_core;

/// Returns the number of bytes above which waiting output pauses receiving. `output_limit`: see
/// websocket_limits.
constexpr std::size_t max_output_while_reading(std::size_t output_limit) noexcept {
  return std::min(output_limit / 2, std::size_t{64} << 10);
}

/// The side of the program: handlers that are called, or coroutines that await.
enum class websocket_face : std::uint8_t { handlers, coroutines };

/// Joins frames, time limits and the program. Two derived classes are the face towards the program:
/// called_websocket has handlers, websocket_core is awaited by coroutines. Classes derived from a
/// face move the bytes: websocket_protocol those of a TCP connection, transport_driver those of a
/// websocket_transport. All functions of the face are called within turns: of input, of the timer,
/// of output that was taken.
///
/// | state | a message | the peer's Close | its FIN | the timer |
/// |---|---|---|---|---|
/// | open | delivered | replies, ends | ends | see websocket_clock |
/// | closing (1) | dropped | ends | ends | ends |
/// | going away (2) | delivered | ends | ends | ends |
/// | ended (3) | dropped | dropped | closes | - |
///
/// 1. After close(), and after a message above the limit of the output.
/// 2. After the server's stop has begun, or after close() while a coroutine receives.
/// 3. The face knows the end. The transport still sends its output.
///
/// A coroutine receives one message at a time: without a receive that waits, receiving is paused.
/// Its sends wait while much output waits, so that output does not pause receiving, as it does for
/// handlers; instead, Pongs wait in the session until the output was taken.
///
/// Thread-safety: the loop's thread.
class websocket_driver : public websocket_connection, timer_operation {
 public:
  websocket_driver(const websocket_driver&) = delete;
  websocket_driver& operator=(const websocket_driver&) = delete;

  // websocket_connection
  bool send(websocket_message message) override;
  bool send(prepared_message message) override;
  std::size_t pending_output() const noexcept override {
    return has_ended_ ? 0 : queued_output() + unsent_output();
  }
  void subscribe_to(websocket_broadcast& broadcast) override;
  void pause_reading() noexcept override;
  void resume_reading() noexcept override;
  bool is_open() const noexcept override {
    return !has_ended_ && !session_.has_sent_close() && can_send();
  }
  std::optional<close_code> close_status() const noexcept override {
    return session_.received_close();
  }
  std::string_view close_reason() const noexcept override { return session_.received_reason(); }
  std::string_view subprotocol() const noexcept override { return session_.subprotocol(); }
  bool is_compressed() const noexcept override { return session_.is_compressed(); }

 protected:
  class broadcast_link;
  // Parts that few sockets need, in a block of their own.
  struct extra_state : gyre::detail::slab_object {
    std::shared_ptr<broadcast_link> broadcasts;    // null without a subscription
    std::unique_ptr<manual_reset_event> change;    // made by a coroutine's first wait for a change
    std::unique_ptr<io::buffer> held;              // bytes that wait for a coroutine's receive
    move_only_function<task<>(websocket&)> serve;  // a server's function, if it has state
  };

  websocket_driver(steady_time now, websocket_role role, const websocket_options& options,
                   websocket_agreement agreement, websocket_face face);
  ~websocket_driver() = default;

  // --- Called by the derived class ---

  /// Receives bytes in a turn, the first of which, also one without bytes, opens the socket. Leaves
  /// bytes if receiving is paused, and for the next turn.
  void take_input(io::input& input);
  /// Drops or delivers what the session has or gets of `input`. Called within a turn.
  void receive(io::input& input);
  /// Called when the transport has taken output.
  void on_output_taken() noexcept;
  /// Called when the transport has ended, or has failed because of `reason`: ends the socket.
  void end(std::error_code reason, std::exception_ptr failure = {}) noexcept;
  /// Called when nothing can be sent any more.
  void on_disconnected() noexcept;
  /// Sends Close 1001, and delivers messages until the peer's Close has come. Coroutines must
  /// receive; otherwise their next receive begins to go away.
  void begin_going_away() noexcept;
  /// Sends Close 1001, and ends.
  void go_away_now() noexcept;
  /// Called by the destructor of the derived class, after which no handler is called.
  void abandon() noexcept;

  /// Calls receive_held() in a turn. Faces of coroutines only; the socket may be destroyed
  /// afterwards, as in the next function.
  void receive_now() noexcept;
  /// Ends the socket as end() does, in a turn of its own.
  void end_now(std::error_code reason, std::exception_ptr failure = {}) noexcept;
  /// Makes a turn of the timer follow the tasks that are ready now.
  void schedule_turn() noexcept;

  bool has_ended() const noexcept { return has_ended_; }
  bool is_in_turn() const noexcept { return is_in_turn_; }
  websocket_session& session() noexcept { return session_; }
  const websocket_session& session() const noexcept { return session_; }
  void update_reading() noexcept;
  /// Makes the parts that few sockets need. Throws std::bad_alloc.
  extra_state& extras();
  extra_state* existing_extras() const noexcept { return extras_.get(); }

 private:
  friend websocket_core;  // the face of coroutines

  // --- The face ---

  virtual void deliver_open() = 0;
  virtual void deliver_message(websocket_message message) = 0;
  virtual bool reports_writes() const noexcept = 0;
  virtual void deliver_write_complete() = 0;
  // Called once at the end of a socket that was open.
  virtual void deliver_close(std::error_code reason) = 0;
  // Drops what the program has given, after deliver_close().
  virtual void drop_program() noexcept = 0;
  // Called for faces of coroutines: passes the bytes that wait for a receive to receive().
  virtual void receive_held() {}
  // Called at the end of each turn of a face of coroutines, which may destroy the socket.
  virtual void on_turn_ended() noexcept {}

  // --- The transport ---

  // The buffer to which frames are appended.
  virtual io::buffer& output() = 0;
  // The number of bytes of that buffer that wait for flush().
  virtual std::size_t unsent_output() const noexcept = 0;
  // The number of bytes that were flushed, and that the peer or the system has not taken.
  virtual std::size_t queued_output() const noexcept = 0;
  // Sends the buffer, followed by `bytes`, which need not outlive the call.
  virtual void flush(std::span<const std::byte> bytes) = 0;
  // Calls flush({}), and resets the connection if there is no memory.
  virtual void flush_output() noexcept = 0;
  // Sends the buffer after the tasks that are ready now. Returns false without memory.
  virtual bool schedule_flush() noexcept = 0;
  // Makes on_output_taken() be called when little of the queued output is left.
  virtual void notify_when_taken() noexcept = 0;
  virtual bool can_send() const noexcept = 0;
  virtual void pause_input() noexcept = 0;
  virtual void resume_input() noexcept = 0;
  // Makes the loop's next turn call take_input() with the bytes that take_input() has not consumed.
  virtual void deliver_rest() noexcept = 0;
  // Whether the server's stop has begun.
  virtual bool is_stopping() const noexcept = 0;
  // Drops all output. The socket ends in a later turn.
  virtual void abort() noexcept = 0;
  // Called after on_close. `failure`: the exception of a handler. `has_left`: whether the
  // connection has ended before.
  virtual void conclude(const std::exception_ptr& failure, bool has_left) noexcept = 0;
  // Closes the transport when it has sent its output. Called at the end, unless it has left.
  virtual void close_when_sent() noexcept = 0;

  void begin_close(close_code code, std::string_view reason) override;
  // Runs a part of the life of the socket, in which the face is called. Everything that it sends
  // leaves with one call at the end. A face of coroutines may have been destroyed afterwards.
  template <class Work>
  void run_turn(Work work) noexcept;
  bool takes_messages() const noexcept;
  bool is_output_full() const noexcept { return queued_output() > max_pending(); }
  void append_control();
  void go_away();
  void send_encoded(const prepared_message& message, std::span<const std::byte> frames);
  void append_message(websocket_kind kind, std::span<const std::byte> bytes);
  bool may_send(std::size_t size) noexcept;
  void note_message() noexcept;
  void note_output() noexcept;
  void send_close(close_code code, std::string_view reason);
  void flush_all();
  void report_written();
  void wake_broadcasts() noexcept;
  std::size_t max_pending() const noexcept;
  // Whether time limits apply: not while nothing is read that would keep them.
  bool keeps_time() const noexcept { return is_closing_ || !(is_paused_ || is_full_); }
  void arm_timer() noexcept;
  void on_timer() noexcept;
  void act_at_deadline();
  void report_end(std::error_code reason, std::exception_ptr failure, bool has_left) noexcept;

  std::unique_ptr<extra_state> extras_;
  websocket_clock clock_;
  // The flags are in the padding of the session, and so are members of websocket_core.
  [[no_unique_address]] websocket_session session_;
  const bool is_awaited_ : 1;   // whether the face is that of coroutines
  bool is_opened_ : 1 = false;  // whether the program knows the socket
  bool is_in_turn_ : 1 = false;
  bool is_paused_ : 1;        // whether the program has paused receiving, or awaits no message
  bool is_full_ : 1 = false;  // whether much output has paused receiving
  bool exceeds_limit_ : 1 = false;  // whether a send was above the limit
  bool is_closing_ : 1 = false;     // whether messages that come are dropped
  bool must_report_ : 1 = false;    // whether messages were sent since on_write_complete
  bool has_ended_ : 1 = false;
  receiving mode_ : 1 = receiving::messages;
};

}  // namespace detail
}  // namespace gyre::http
