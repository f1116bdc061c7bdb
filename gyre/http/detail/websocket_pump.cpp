// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_pump.hpp>

#include <gyre/http/websocket_error.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>
#include <gyre/task/schedule.hpp>

#include <utility>

namespace gyre::http::detail {

class websocket_pump::send_scope {
 public:
  explicit send_scope(websocket_pump& pump) noexcept : pump_(pump), size_(pump.queued_output()) {
    pump.is_sending_ = true;
  }
  send_scope(const send_scope&) = delete;
  send_scope& operator=(const send_scope&) = delete;
  ~send_scope() {
    pump_.is_sending_ = false;
    // A frame that was sent in part, by a stopped or failed task, cannot be continued.
    if (!is_complete_) pump_.abort();
    if (pump_.has_queued_output()) pump_.wake();  // control frames, which the receive sends
    pump_.signal_change();
  }
  void complete() noexcept {
    is_complete_ = true;
    pump_.sent_ += size_;
    pump_.note_sent();
  }

 private:
  websocket_pump& pump_;
  const std::size_t size_;
  bool is_complete_ = false;
};

websocket_pump::websocket_pump(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                               websocket_role role, const websocket_options& options,
                               websocket_agreement agreement, inplace_stop_token server_stop)
    : transport_driver(loop, std::move(transport), role, options, std::move(agreement),
                       server_stop) {
  io::input nothing;
  take_input(nothing);  // opens the socket
}

// --- Receiving ---

// Moves bytes until a message has come or the socket has ended.
task<> websocket_pump::receive_message() {
  std::exception_ptr error;
  try {
    for (;;) {
      flush_control();
      if (has_queued_output() && !is_sending_ && can_send()) {
        // A peer that is gone may have sent messages before.
        try {
          auto sending = send_all_output();
          co_await std::move(sending);
        } catch (...) {
          error = gyre::detail::caught_error();
        }
        if (error && gyre::detail::is_cancelled(error)) break;
      }
      if (has_message() || has_ended()) break;
      if (!transport().input().empty()) {
        co_await yield();
        receive_now();
        continue;
      }
      if (transport().has_ended()) {
        end_now(websocket_errc::ended);
        continue;
      }
      {
        const wait_scope waits(*this);
        if (auto reading = transport().begin_wait(*this)) {
          co_await std::move(*reading);
        } else {
          co_await woken();
        }
      }
      if (!transport().input().empty()) receive_now();
    }
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  if (error && !gyre::detail::is_cancelled(error)) {
    if (!has_message()) end_now(net::detail::code_of(error));
    // A peer that has closed may be gone before the reply.
    if (has_message() || transport_driver::session().has_received_close()) error = nullptr;
  }
  if (error) co_await gyre::detail::fail_with(error);
}

void websocket_pump::receive_held() {
  io::input input(transport().input());
  const std::size_t size = input.size();
  receive(input);
  transport().consume(size - input.size());
}

// The receive that waits goes on in a turn of its own.
void websocket_pump::on_input(io::input& input) {
  if (is_waiting()) take_input(input);
}

void websocket_pump::on_turn_ended() noexcept {
  if (has_message() || has_ended() || (has_queued_output() && !is_sending_)) wake();
  if (has_ended()) end_receive();
}

// --- Sending ---

std::optional<task<>> websocket_pump::finish_send(std::size_t /*size*/) {
  if (!has_queued_output()) return std::nullopt;
  return send_all_output();
}

// Sends the frames that wait in the queue at the call.
task<> websocket_pump::send_all_output() {
  const std::uint64_t end = sent_ + queued_output();
  while (sent_ < end) {
    if (!can_send()) {
      throw std::system_error(make_error_code(websocket_errc::closed), "http::websocket: send");
    }
    if (is_sending_) {
      auto waiting = await_change();
      co_await std::move(waiting);
      continue;
    }
    send_scope sending(*this);
    if (auto rest = start_send()) co_await std::move(*rest);
    sending.complete();
  }
}

task<> websocket_pump::finish_close() {
  flush_control();
  if (!has_queued_output() || !can_send()) co_return;
  auto sending = send_all_output();
  co_await std::move(sending);
}

// --- The end ---

void websocket_pump::abort() noexcept {
  fail_output();
  wake();
}

}  // namespace gyre::http::detail
