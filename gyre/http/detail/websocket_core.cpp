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
  if (is_in_turn_ && is_stopping() && !has_ended_) go_away();
  is_receiving_ = true;
  if (has_result()) return true;
  if (is_closing_) return false;  // another coroutine closes, and drops what comes
  mode_ = mode;
  is_paused_ = false;
  if (mode == receiving::pieces && session_.is_within_message()) {
    const steady_time now = loop().recent_time();
    clock_.end_message(now);
    clock_.begin_message(now);
  }
  if (is_in_turn_) return false;  // the turn goes on receiving
  if (is_stopping()) {
    begin_going_away();
  } else if (++results_in_a_row_ >= max_results_in_a_row) {
    schedule_turn();
    return false;
  }
  if (!has_message_ && !has_ended_) receive_now();
  return has_result();
}

std::optional<task<>> websocket_core::await_receive(websocket_receive& receive) {
  results_in_a_row_ = 0;
  std::optional<task<>> receiving;
  if (!is_closing_) receiving = receive_next();
  if (!receiving) waiting_ = &receive;
  return receiving;
}

void websocket_core::abandon_receive() noexcept {
  waiting_ = nullptr;
  is_receiving_ = false;
  if (!is_closing_) is_paused_ = true;
  signal_change();
}

std::optional<websocket_message> websocket_core::take_result() {
  waiting_ = nullptr;
  is_receiving_ = false;
  if (has_message_) {
    has_message_ = false;
    return session_.data();
  }
  if (is_closing_ || session_.has_received_close()) return std::nullopt;
  throw std::system_error(make_error_code(static_cast<websocket_errc>(error_)), "http::websocket");
}

void websocket_core::deliver_message(websocket_message /*message*/) {
  has_message_ = true;
  is_paused_ = true;
  if (closers_ != 0) signal_change();
  if (waiting_ != nullptr) std::exchange(waiting_, nullptr)->complete();
}

void websocket_core::deliver_close(std::error_code reason) {
  if (reason.category() == websocket_category()) error_ = static_cast<std::uint8_t>(reason.value());
  signal_change();
}

void websocket_core::end_receive() noexcept {
  if (waiting_ != nullptr) std::exchange(waiting_, nullptr)->complete();
}

task<> websocket_core::await_change() {
  std::unique_ptr<manual_reset_event>& change = extras().change;
  if (change == nullptr) change = std::make_unique<manual_reset_event>();
  change->reset();
  co_await change->wait();
}

// --- Sending ---

void websocket_core::fail_to_send() {
  throw std::system_error(make_error_code(websocket_errc::closed), "http::websocket: send");
}

std::optional<task<>> websocket_core::send_message(websocket_message message) {
  if (!send(message)) fail_to_send();
  return finish_send(message.bytes.size());
}

task<> websocket_core::send_encoded_message(prepared_message message) {
  auto sending = send_all({&message, 1});
  co_await std::move(sending);
}

task<> websocket_core::send_all(std::span<const prepared_message> messages) {
  std::size_t size = 0;
  for (const prepared_message& each : messages) {
    if (is_output_full()) {
      if (auto rest = finish_send(std::exchange(size, 0))) co_await std::move(*rest);
    }
    if (!send(each)) fail_to_send();
    size += each.bytes().size();
  }
  if (auto rest = finish_send(size)) co_await std::move(*rest);
}

// --- Closing ---

void websocket_core::send_first_close(close_code code, std::string_view reason) {
  if (has_ended_ || session_.has_sent_close()) return;
  send_close(code, reason);
}

void websocket_core::fail_socket(const std::exception_ptr& error) noexcept {
  if (error != gyre::detail::cancellation()) return end_now(io::errc::aborted, error);
  try {
    send_first_close(close_code::going_away, {});
    end_now(websocket_errc::ended, error);
  } catch (...) {
    end_now(io::errc::aborted, std::current_exception());
  }
}

void websocket_core::begin_to_close(close_code code) noexcept {
  try {
    send_first_close(code, {});
    is_closing_ = true;
  } catch (...) {
    end_now(io::errc::aborted, std::current_exception());
  }
}

task<> websocket_core::send_close_frame(close_code code, std::string reason) {
  send_first_close(code, reason);
  auto finishing = as_result(with_timeout(finish_close(), close_limit()));
  co_await std::move(finishing);
}

task<> websocket_core::close_socket(close_code code, std::string reason) {
  const closer_scope closing(*this);
  auto sending = send_close_frame(code, std::move(reason));
  co_await std::move(sending);
  while (!has_ended_) {
    std::optional<task<>> receiving;
    if (!is_receiving_ && !closer_receives_) {
      has_message_ = false;
      is_closing_ = true;
      receiving = receive_next();
    }
    if (has_ended_) break;
    const closer_task moving(*this, receiving.has_value());
    auto waiting =
        as_result(with_timeout(receiving ? std::move(*receiving) : await_change(), close_limit()));
    const auto result = co_await std::move(waiting);
    if (!result) break;
  }
  if (!has_ended_) end_now(websocket_errc::ended);
}

// Returns the rest of the time for the peer's Close frame.
duration websocket_core::close_limit() const noexcept {
  const steady_time deadline = clock_.deadline(session_.settings());
  return deadline == steady_time::max() ? duration::max() : duration(deadline - loop().now());
}

}  // namespace gyre::http::detail
