// SPDX-License-Identifier: Apache-2.0
// transport_driver: a WebSocket whose bytes are those of a websocket_transport.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/input_receiver.hpp>
#include <gyre/http/detail/websocket_callbacks.hpp>
#include <gyre/http/detail/websocket_core.hpp>
#include <gyre/http/detail/websocket_handshake.hpp>
#include <gyre/http/detail/websocket_session.hpp>
#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace gyre::http::detail {

/// The steps by which coroutines of derived classes move bytes: websocket_relay has two of its own
/// for handlers, websocket_pump uses those that receive and send. `Face`: called_websocket or
/// websocket_core.
///
/// Thread-safety: the loop's thread.
template <class Face>
class transport_driver : public Face, protected input_receiver {
 public:
  transport_driver(const transport_driver&) = delete;
  transport_driver& operator=(const transport_driver&) = delete;

  event_loop& loop() const override { return loop_; }

 protected:
  /// `server_stop`: its stop makes the socket go away; it must outlive the driver. `program`: the
  /// first arguments of the face.
  template <class... Program>
  transport_driver(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                   websocket_role role, const websocket_options& options,
                   websocket_agreement agreement, inplace_stop_token server_stop,
                   Program&&... program)
      : Face(std::forward<Program>(program)..., loop.now(), role, options, std::move(agreement)),
        loop_(loop),
        transport_(std::move(transport)),
        server_stop_token_(server_stop) {
    if (server_stop.stop_possible()) server_stop_.emplace(server_stop, begin_stop{this});
  }
  ~transport_driver() = default;

  /// Called by the destructor of the derived class, after which the program is not called.
  void leave() noexcept;

  websocket_transport& transport() const noexcept { return *transport_; }
  /// Waits until the transport has bytes or has ended, or wake() is called.
  task<> wait_for_input();
  /// The steps of wait_for_input(), for coroutines that take them themselves.
  class wait_scope {
   public:
    explicit wait_scope(transport_driver& socket) noexcept : socket_(socket) {
      socket.is_waiting_ = true;
      socket.wake_.reset();
    }
    wait_scope(const wait_scope&) = delete;
    wait_scope& operator=(const wait_scope&) = delete;
    ~wait_scope() {
      socket_.is_waiting_ = false;
      socket_.transport_->end_wait();
    }

   private:
    transport_driver& socket_;
  };
  auto_reset_event::wait_operation woken() noexcept { return wake_.wait(); }
  /// Lets the coroutine go on that waits for input.
  void wake() noexcept;
  bool is_waiting() const noexcept { return is_waiting_; }
  std::size_t queued_output() const noexcept override { return queue_.size() + sending_.size(); }
  /// Sends the bytes that wait. Another send must not run.
  task<> send_queue();
  /// Begins a send. Afterwards, at once or when the task has ended, note_sent() must be called.
  std::optional<task<>> start_send();
  void note_sent() noexcept;
  bool has_queued_output() const noexcept { return !queue_.empty(); }
  /// Drops the output that waits, and all further output.
  void fail_output() noexcept;
  bool can_send() const noexcept override { return !has_failed_; }

  // The functions of input_receiver.
  void on_input_ended() noexcept override { wake_.set(); }

 private:
  struct begin_stop {
    transport_driver* socket;
    void operator()() const noexcept { socket->begin_going_away(); }
  };

  /// Called when bytes of the output wait to be sent.
  virtual void on_output() noexcept = 0;

  // The functions of websocket_driver.
  io::buffer& output() override;
  std::size_t unsent_output() const noexcept override { return 0; }
  void flush(std::span<const std::byte> bytes) override;
  void flush_output() noexcept override { on_output(); }
  bool schedule_flush() noexcept override;
  void notify_when_taken() noexcept override {}  // it is always called
  void deliver_rest() noexcept override {}       // the coroutine that receives finds the rest
  bool is_stopping() const noexcept override { return server_stop_token_.stop_requested(); }

  event_loop& loop_;
  const std::unique_ptr<websocket_transport> transport_;
  const inplace_stop_token server_stop_token_;
  io::buffer queue_{{.prepend = 0}};    // bytes that wait to be sent
  io::buffer sending_{{.prepend = 0}};  // bytes that are being sent; swapped with queue_
  auto_reset_event wake_;               // ends the wait for input
  bool is_waiting_ = false;             // whether wait_for_input() runs
  bool has_failed_ = false;             // whether nothing can be sent any more
  // The last member, because its constructor may call begin_stop, which uses the others.
  std::optional<inplace_stop_callback<begin_stop>> server_stop_;
};

extern template class transport_driver<called_websocket>;
extern template class transport_driver<websocket_core>;

}  // namespace gyre::http::detail
