// SPDX-License-Identifier: Apache-2.0
// websocket_core: the face of a WebSocket towards coroutines.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/http/detail/websocket_driver.hpp>
#include <gyre/http/detail/websocket_receive.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/http/websocket_message.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::http::detail {

/// The part of a served_websocket that is kept in padding of its base.
struct served_state {
  enum class served_phase : std::uint8_t {
    waiting,  // the function was not called
    running,
    ended,      // its coroutine has ended in a turn, which concludes it
    concluded,  // the records were made, or will be at the end of the socket
  };

  served_phase phase : 2 = served_phase::waiting;
  bool is_input_paused : 1 = false;  // whether many bytes are held
  bool has_peer_ended : 1 = false;   // while bytes are held
  bool has_left : 1 = false;         // whether the connection has ended
  bool is_released : 1 = false;      // whether the object destroys itself after the function
  bool is_recorded : 1 = false;      // whether the records of the request were made
};

/// The face of a websocket_driver towards coroutines, with the operations of a websocket, which
/// documents them. One receive waits at a time: as a node that the driver's turn resumes
/// (served_websocket), or in a task that moves the bytes (websocket_pump). Other coroutines wait
/// for a change: of the output, of the receive, or of the socket's end.
///
/// Thread-safety: the loop's thread.
class websocket_core : public websocket_driver {
 public:
  websocket_core(const websocket_core&) = delete;
  websocket_core& operator=(const websocket_core&) = delete;

  // --- Called by websocket_receive ---

  /// Begins a receive. Returns whether it has ended. Throws io::errc::busy during another receive.
  [[nodiscard]] bool begin_receive(receiving mode);
  /// Called if the receive has not ended: returns a task that ends when it has; or nothing, after
  /// which complete() of `receive` is called.
  [[nodiscard]] std::optional<task<>> await_receive(websocket_receive& receive);
  /// Whether the socket ends the receive of a coroutine that waits when the stop of `context` is
  /// requested. That coroutine runs on the loop's thread.
  virtual bool ends_before(const task_context& /*context*/) const noexcept { return false; }
  /// Called when the receive was stopped or destroyed.
  void abandon_receive() noexcept;
  /// Returns the result of a receive that has ended.
  std::optional<websocket_message> take_result();

  // --- Sending ---

  /// Sends a message. Returns a task to await if the sender has to wait.
  [[nodiscard]] std::optional<task<>> send_message(websocket_message message);
  task<> send_encoded_message(prepared_message message);
  task<> send_all(std::span<const prepared_message> messages);

  // --- Closing ---

  /// Sends a Close frame, unless one was sent. Fails like websocket::close().
  task<> send_close_frame(close_code code, std::string reason);
  task<> close_socket(close_code code, std::string reason);
  /// Called when the program has dropped its websocket.
  virtual void drop() noexcept = 0;

  using websocket_driver::session;

 protected:
  websocket_core(steady_time now, websocket_role role, const websocket_options& options,
                 websocket_agreement agreement)
      : websocket_driver(now, role, options, std::move(agreement), websocket_face::coroutines) {}
  ~websocket_core() = default;

  // --- Called by the derived class ---

  /// Moves control frames of the session to the output.
  void flush_control() { flush_all(); }
  /// Lets the receive go on that waits although the socket has ended.
  void end_receive() noexcept;
  /// Makes the receive that waits fail as one that was stopped, when end_receive() is called.
  void note_stop_of_receive() noexcept {
    if (waiting_ != nullptr) waiting_->note_stop();
  }
  /// Lets coroutines go on that wait for a change.
  void signal_change() noexcept {
    if (existing_extras() != nullptr && existing_extras()->change) existing_extras()->change->set();
  }
  /// Ends the socket because of an exception of the function that serves it.
  void fail_socket(const std::exception_ptr& error) noexcept;
  /// Begins to close the socket without a coroutine that waits, and drops messages.
  void begin_to_close(close_code code) noexcept;
  /// Returns a task that waits until signal_change() is called.
  task<> await_change();
  /// Whether the session has a message that no receive has returned.
  bool has_message() const noexcept { return has_message_; }
  /// Whether close() receives, and drops messages.
  bool drops_messages() const noexcept { return is_closing_; }

 private:
  class closer_scope;
  class closer_task;

  /// Begins to receive what comes: returns a task that moves the bytes until a message has come or
  /// the socket has ended; or nothing if they come by themselves.
  virtual std::optional<task<>> receive_next() = 0;
  /// Returns a task that waits until more may be sent, or nothing. `size`: the bytes that were
  /// sent.
  virtual std::optional<task<>> finish_send(std::size_t size) = 0;
  /// Returns a task that waits until the Close frame was sent.
  virtual task<> finish_close() = 0;
  /// Whether the socket has ended, but a receive must still send its last bytes.
  virtual bool has_last_output() const noexcept { return false; }

  // websocket_driver
  // Gives the message of the session to the receive that waits, which may go on at once.
  void deliver_message(websocket_message message) override;
  bool reports_writes() const noexcept override { return false; }
  void deliver_write_complete() override {}
  void deliver_close(std::error_code reason) override;
  void drop_program() noexcept override {}

  bool has_result() const noexcept { return has_message_ || (has_ended_ && !has_last_output()); }
  void send_first_close(close_code code, std::string_view reason);
  [[noreturn, gnu::cold]] static void fail_to_send();
  duration close_limit() const noexcept;

  std::uint16_t closers_ = 0;          // calls of close() that wait
  std::uint8_t results_in_a_row_ = 0;  // receives since the last wait
  // A websocket_errc, of a socket that has ended.
  std::uint8_t error_ = static_cast<std::uint8_t>(websocket_errc::ended);
  bool is_receiving_ : 1 = false;
  bool closer_receives_ : 1 = false;  // whether a task of close() moves the bytes
  bool has_message_ : 1 = false;  // whether the session has a message that no receive has returned

 protected:
  served_state served_;
  std::uint32_t sent_in_a_row_ = 0;  // bytes since a send has waited

 private:
  websocket_receive* waiting_ = nullptr;  // the receive that waits for complete()
};

}  // namespace gyre::http::detail
