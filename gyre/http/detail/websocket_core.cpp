// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_core.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/websocket_receive.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/with_timeout.hpp>

#include <utility>

namespace gyre::http::detail {
namespace {

// A peer whose messages have come already must not keep the loop busy.
constexpr std::uint8_t max_results_in_a_row = 128;

}  // namespace

class websocket_core::closer_scope {
 public:
  explicit closer_scope(websocket_core& core) noexcept : core_(core) { ++core.closers_; }
  closer_scope(const closer_scope&) = delete;
  closer_scope& operator=(const closer_scope&) = delete;
  ~closer_scope() { --core_.closers_; }

 private:
  websocket_core& core_;
};

// The task of close() that moves the bytes.
class websocket_core::closer_task {
 public:
  closer_task(websocket_core& core, bool moves) noexcept : core_(core), moves_(moves) {
    if (moves) core.closer_receives_ = true;
  }
  closer_task(const closer_task&) = delete;
  closer_task& operator=(const closer_task&) = delete;
  ~closer_task() {
    if (!moves_) return;
    core_.closer_receives_ = false;
    core_.signal_change();
  }

 private:
  websocket_core& core_;
  const bool moves_;
};

// --- Receiving ---

bool websocket_core::begin_receive(receiving mode) {
  if (is_receiving_) {
    throw std::system_error(make_error_code(io::errc::busy), "http::websocket: receive");
  }
  websocket_driver& socket = *socket_;
  if (socket.is_in_turn_ && socket.is_stopping() && !socket.has_ended_) socket.go_away();
  is_receiving_ = true;
  if (has_result()) return true;
  if (socket.is_closing_) return false;  // another coroutine closes, and drops what comes
  socket.mode_ = mode;
  socket.is_paused_ = false;
  if (mode == receiving::pieces && socket.session_.is_within_message()) {
    const steady_time now = socket.loop().recent_time();
    socket.clock_.end_message(now);
    socket.clock_.begin_message(now);
  }
  if (socket.is_in_turn_) return false;  // the turn goes on receiving
  if (socket.is_stopping()) {
    socket.begin_going_away();
  } else if (++results_in_a_row_ >= max_results_in_a_row) {
    socket.schedule_turn();
    return false;
  }
  if (!has_message_ && !socket.has_ended_) socket.receive_now();
  return has_result();
}

std::optional<task<>> websocket_core::await_receive(websocket_receive& receive) {
  results_in_a_row_ = 0;
  std::optional<task<>> receiving;
  if (!socket_->is_closing_) receiving = receive_next();
  if (!receiving) waiting_ = &receive;
  return receiving;
}

void websocket_core::abandon_receive() noexcept {
  waiting_ = nullptr;
  is_receiving_ = false;
  if (!socket_->is_closing_) socket_->is_paused_ = true;
  signal_change();
}

std::optional<websocket_message> websocket_core::take_result() {
  waiting_ = nullptr;
  is_receiving_ = false;
  if (std::exchange(has_message_, false)) return socket_->session_.data();
  if (socket_->is_closing_ || socket_->session_.has_received_close()) return std::nullopt;
  throw std::system_error(make_error_code(error_), "http::websocket");
}

void websocket_core::on_message() noexcept {
  has_message_ = true;
  socket_->is_paused_ = true;
  if (closers_ != 0) signal_change();
  if (waiting_ != nullptr) std::exchange(waiting_, nullptr)->complete();
}

void websocket_core::on_end(std::error_code reason) noexcept {
  if (reason.category() == websocket_category()) {
    error_ = static_cast<websocket_errc>(reason.value());
  }
  signal_change();
}

void websocket_core::end_receive() noexcept {
  if (waiting_ != nullptr) std::exchange(waiting_, nullptr)->complete();
}

task<> websocket_core::await_change() {
  if (change_ == nullptr) change_ = std::make_unique<manual_reset_event>();
  change_->reset();
  co_await change_->wait();
}

// --- Sending ---

void websocket_core::require_open() const {
  if (socket_->is_open()) return;
  throw std::system_error(make_error_code(websocket_errc::closed), "http::websocket: send");
}

std::optional<task<>> websocket_core::send(websocket_message message) {
  require_open();
  socket_->send(message);
  return finish_send(message.bytes.size());
}

task<> websocket_core::send(prepared_message message) {
  auto sending = send_all({&message, 1});
  co_await std::move(sending);
}

task<> websocket_core::send_all(std::span<const prepared_message> messages) {
  std::size_t size = 0;
  for (const prepared_message& each : messages) {
    if (socket_->is_output_full()) {
      if (auto rest = finish_send(std::exchange(size, 0))) co_await std::move(*rest);
    }
    require_open();
    socket_->send(each);
    size += each.bytes().size();
  }
  if (auto rest = finish_send(size)) co_await std::move(*rest);
}

// --- Closing ---

void websocket_core::begin_close(close_code code, std::string_view reason) {
  if (socket_->has_ended_ || socket_->session_.has_sent_close()) return;
  socket_->send_close(code, reason);
}

void websocket_core::fail_socket(const std::exception_ptr& error) noexcept {
  if (error != gyre::detail::cancellation()) return socket_->end_now(io::errc::aborted, error);
  try {
    begin_close(close_code::going_away, {});
    socket_->end_now(websocket_errc::ended, error);
  } catch (...) {
    socket_->end_now(io::errc::aborted, std::current_exception());
  }
}

void websocket_core::begin_to_close(close_code code) noexcept {
  try {
    begin_close(code, {});
    socket_->is_closing_ = true;
  } catch (...) {
    socket_->end_now(io::errc::aborted, std::current_exception());
  }
}

task<> websocket_core::send_close(close_code code, std::string reason) {
  begin_close(code, reason);
  auto finishing = as_result(with_timeout(finish_close(), close_limit()));
  co_await std::move(finishing);
}

task<> websocket_core::close(close_code code, std::string reason) {
  const closer_scope closing(*this);
  auto sending = send_close(code, std::move(reason));
  co_await std::move(sending);
  while (!socket_->has_ended_) {
    std::optional<task<>> receiving;
    if (!is_receiving_ && !closer_receives_) {
      has_message_ = false;
      socket_->is_closing_ = true;
      receiving = receive_next();
    }
    if (socket_->has_ended_) break;
    const closer_task moving(*this, receiving.has_value());
    auto waiting =
        as_result(with_timeout(receiving ? std::move(*receiving) : await_change(), close_limit()));
    const auto result = co_await std::move(waiting);
    if (!result) break;
  }
  if (!socket_->has_ended_) socket_->end_now(websocket_errc::ended);
}

// Returns the rest of the time for the peer's Close frame.
duration websocket_core::close_limit() const noexcept {
  const steady_time end = socket_->clock_.deadline(socket_->session_.settings());
  return end == steady_time::max() ? duration::max() : duration(end - socket_->loop().now());
}

}  // namespace gyre::http::detail
