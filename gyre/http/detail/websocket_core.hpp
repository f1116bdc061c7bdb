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

/// The operations of a websocket, which documents them, above a websocket_driver that a derived
/// class is. One receive waits at a time: as a node that the driver's turn resumes
/// (served_websocket), or in a task that moves the bytes (websocket_pump). Other coroutines wait
/// for a change: of the output, of the receive, or of the socket's end.
///
/// Thread-safety: the loop's thread.
class websocket_core {
 public:
  websocket_core(const websocket_core&) = delete;
  websocket_core& operator=(const websocket_core&) = delete;

  // --- Called by websocket_receive ---

  /// Begins a receive. Returns whether it has ended. Throws io::errc::busy during another receive.
  [[nodiscard]] bool begin_receive(receiving mode);
  /// Called if the receive has not ended: returns a task that ends when it has; or nothing, after
  /// which complete() of `receive` is called.
  [[nodiscard]] std::optional<task<>> await_receive(websocket_receive& receive);
  /// Called when the receive was stopped or destroyed.
  void abandon_receive() noexcept;
  /// Returns the result of a receive that has ended.
  std::optional<websocket_message> take_result();

  // --- Sending ---

  /// Sends a message. Returns a task to await if the sender has to wait.
  [[nodiscard]] std::optional<task<>> send(websocket_message message);
  task<> send(prepared_message message);
  task<> send_all(std::span<const prepared_message> messages);

  // --- Closing ---

  /// Sends a Close frame, unless one was sent. Fails like close().
  task<> send_close(close_code code, std::string reason);
  task<> close(close_code code, std::string reason);
  /// Called when the program has dropped its websocket.
  virtual void drop() noexcept = 0;

  const websocket_driver& socket() const noexcept { return *socket_; }
  const websocket_session& session() const noexcept { return socket_->session_; }

 protected:
  explicit websocket_core(websocket_driver& socket) noexcept : socket_(&socket) {}
  ~websocket_core() = default;

  // --- Called by the derived class ---

  /// Gives the message of the session to the receive that waits, which may go on at once.
  void on_message() noexcept;
  /// Called when the socket has ended because of `reason`.
  void on_end(std::error_code reason) noexcept;
  /// Moves control frames of the session to the output.
  void flush_control() { socket_->flush_all(); }
  /// Lets the receive go on that waits although the socket has ended.
  void end_receive() noexcept;
  /// Lets coroutines go on that wait for a change.
  void signal_change() noexcept {
    if (change_ != nullptr) change_->set();
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
  bool drops_messages() const noexcept { return socket_->is_closing_; }

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

  bool has_result() const noexcept {
    return has_message_ || (socket_->has_ended_ && !has_last_output());
  }
  void begin_close(close_code code, std::string_view reason);
  void require_open() const;
  duration close_limit() const noexcept;

  websocket_driver* const socket_;
  websocket_receive* waiting_ = nullptr;          // the receive that waits for complete()
  std::unique_ptr<manual_reset_event> change_;    // made by the first wait for a change
  websocket_errc error_ = websocket_errc::ended;  // of a socket that has ended
  std::uint16_t closers_ = 0;                     // calls of close() that wait
  std::uint8_t results_in_a_row_ = 0;             // receives since the last wait
  bool is_receiving_ = false;
  bool closer_receives_ = false;  // whether a task of close() moves the bytes
  bool has_message_ = false;      // whether the session has a message that no receive has returned
};

/// The face of a websocket_driver towards coroutines, as called_websocket is that towards handlers.
/// `Transport` is derived from websocket_driver.
///
/// Thread-safety: the loop's thread.
template <class Transport>
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): only derived classes are deleted
class awaited_websocket : public Transport, public websocket_core {
 protected:
  template <class... Arguments>
  explicit awaited_websocket(Arguments&&... arguments)
      : Transport(std::forward<Arguments>(arguments)..., websocket_face::coroutines),
        websocket_core(static_cast<websocket_driver&>(*this)) {}
  // NOLINTNEXTLINE(modernize-use-override): that of a Transport need not be virtual
  ~awaited_websocket() = default;

 private:
  void deliver_message(websocket_message /*message*/) override { websocket_core::on_message(); }
  bool reports_writes() const noexcept override { return false; }
  void deliver_write_complete() override {}
  void deliver_close(std::error_code reason) override { on_end(reason); }
  void drop_program() noexcept override {}
};

}  // namespace gyre::http::detail
