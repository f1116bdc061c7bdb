// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_core.hpp>

#include <gyre/http/detail/encoded_message.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/stop_when.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

// A peer whose messages have come already must not keep the loop busy.
constexpr std::uint32_t max_results_in_a_row = 128;
// Encoded messages are copied up to this size, so that several are sent by one call.
constexpr std::size_t max_gathered = std::size_t{16} << 10;
// A message above this size is sent where it is.
constexpr std::size_t max_copied = std::size_t{4} << 10;
constexpr std::size_t max_kept_output = std::size_t{64} << 10;

}  // namespace

class websocket_core::receive_scope {
 public:
  explicit receive_scope(websocket_core& core) : core_(core) {
    if (std::exchange(core.is_receiving_, true)) {
      throw std::system_error(make_error_code(io::errc::busy), "http::websocket: receive");
    }
  }
  receive_scope(const receive_scope&) = delete;
  receive_scope& operator=(const receive_scope&) = delete;
  ~receive_scope() {
    core_.is_receiving_ = core_.is_waiting_ = false;
    if (std::exchange(core_.has_close_waiter_, false)) core_.receive_ended_.set();
  }

 private:
  websocket_core& core_;
};

class websocket_core::write_scope {
 public:
  explicit write_scope(websocket_core& core) noexcept : core_(core) { core.is_writing_ = true; }
  write_scope(const write_scope&) = delete;
  write_scope& operator=(const write_scope&) = delete;
  ~write_scope() {
    core_.is_writing_ = false;
    // A frame that was sent in part, by a stopped or failed task, cannot be continued.
    if (!is_complete_) core_.has_failed_ = true;
  }
  void complete() noexcept { is_complete_ = true; }

 private:
  websocket_core& core_;
  bool is_complete_ = false;
};

websocket_core::websocket_core(event_loop& loop, std::unique_ptr<websocket_transport> transport,
                               websocket_role role, const websocket_options& options,
                               websocket_agreement agreement, inplace_stop_token server_stop)
    : timer_operation(
          [](timer_operation& timer) { static_cast<websocket_core&>(timer).on_timer(); }),
      loop_(loop),
      transport_(std::move(transport)),
      session_(role, options.limits, options.compression, agreement.deflate),
      timeouts_(options.timeouts),
      subprotocol_(std::move(agreement.subprotocol)),
      last_input_(loop.recent_time()) {
  if (server_stop.stop_possible()) server_stop_.emplace(server_stop, begin_going_away{this});
}

websocket_core::~websocket_core() {
  server_stop_.reset();
  if (linked()) loop_.cancel_timer(*this);
}

void websocket_core::fail(websocket_errc reason) {
  has_ended_ = true;
  throw std::system_error(make_error_code(reason), "http::websocket");
}

// --- Receiving ---

task<std::optional<websocket_message>> websocket_core::receive(receiving mode) {
  if (!std::exchange(is_closers_call_, false) && closer_receives_) {
    // Another coroutine closes, and drops what comes.
    while (is_receiving_) co_await wait_for_receiver();
    co_return std::nullopt;
  }
  const receive_scope scope(*this);
  if (mode == receiving::pieces && session_.is_within_message())
    message_begin_ = loop_.recent_time();
  for (;;) {
    const auto event = session_.next(input_, mode);
    if (session_.has_control_output()) co_await flush_control();
    if (event == websocket_session::event::message) {
      message_begin_ = steady_time::max();
      if (++results_in_a_row_ >= max_results_in_a_row) {
        results_in_a_row_ = 0;
        co_await yield();
      }
      co_return session_.data();
    }
    if (event == websocket_session::event::closed) {
      has_ended_ = true;
      co_return std::nullopt;
    }
    if (event == websocket_session::event::failed) fail(session_.error());
    if (has_ended_) fail(websocket_errc::ended);
    results_in_a_row_ = 0;
    if (session_.is_within_message()) {
      if (message_begin_ == steady_time::max()) message_begin_ = loop_.recent_time();
    } else {
      message_begin_ = steady_time::max();
    }
    co_await wait_for_input();
  }
}

// Waits for bytes, the end of the peer's side, or an interruption, on which it acts.
task<> websocket_core::wait_for_input() {
  if (!interruption_ || interruption_->stop_requested()) interruption_.emplace();
  bool is_interrupted = goes_away_ && !session_.has_sent_close();
  if (!is_interrupted) {
    is_waiting_ = true;
    arm_timer();
    auto receiving = as_result(stop_when(transport_->receive(), interruption_->get_token()));
    auto received = co_await std::move(receiving);
    is_waiting_ = false;
    if (received) {
      input_ = *received;
      last_input_ = loop_.recent_time();
      ping_time_ = steady_time::max();
      if (input_.empty()) has_ended_ = true;
      co_return;
    }
    is_interrupted = interruption_->stop_requested();
    if (!is_interrupted || !gyre::detail::is_cancelled(received.error())) {
      has_ended_ = true;
      std::rethrow_exception(received.error());
    }
  }
  co_await on_interruption();
}

task<> websocket_core::on_interruption() {
  if (goes_away_ && !session_.has_sent_close()) {
    session_.send_close(close_code::going_away, {});
    close_begin_ = loop_.now();
  } else if (loop_.now() < next_deadline()) {
    co_return;
  } else if (session_.has_sent_close()) {
    fail(websocket_errc::ended);
  } else if (session_.is_within_message()) {
    session_.send_close(close_code::policy_violation, "the message took too long");
    has_ended_ = true;
  } else if (ping_time_ != steady_time::max()) {
    fail(websocket_errc::silent_peer);
  } else {
    session_.release_memory();
    trim_output();
    session_.send_ping();
    ping_time_ = loop_.now();
  }
  co_await flush_control();
  if (has_ended_) fail(websocket_errc::message_timeout);
}

// --- Time limits ---

steady_time websocket_core::end_of(steady_time begin, duration limit) const noexcept {
  if (begin == steady_time::max() || limit.count() == 0) return steady_time::max();
  return gyre::detail::later(begin, limit);
}

steady_time websocket_core::next_deadline() const noexcept {
  if (session_.has_sent_close()) return end_of(close_begin_, timeouts_.close);
  if (session_.is_within_message()) return end_of(message_begin_, timeouts_.message);
  if (ping_time_ != steady_time::max()) return end_of(ping_time_, timeouts_.pong);
  return end_of(last_input_, timeouts_.keep_alive);
}

// A timer that expires before the deadline stays, and starts again when it expires, so that most
// waits start none.
void websocket_core::arm_timer() noexcept {
  const steady_time deadline = next_deadline();
  if (deadline == steady_time::max()) return;
  if (!linked() || deadline < timer_operation::deadline()) loop_.start_timer(*this, deadline);
}

void websocket_core::on_timer() noexcept {
  if (!is_waiting_) return;
  const steady_time deadline = next_deadline();
  if (deadline == steady_time::max()) return;
  if (loop_.now() < deadline) {
    loop_.start_timer(*this, deadline);
  } else {
    interrupt();
  }
}

void websocket_core::interrupt() noexcept {
  if (is_waiting_) interruption_->request_stop();
}

void websocket_core::on_server_stop() noexcept {
  goes_away_ = true;
  interrupt();
}

// --- Sending ---

void websocket_core::check_may_send() const {
  if (is_open()) return;
  throw std::system_error(make_error_code(websocket_errc::closed), "http::websocket: send");
}

task<> websocket_core::send(websocket_kind kind, std::span<const std::byte> bytes) {
  const auto guard = co_await write_mutex_.lock();
  check_may_send();
  write_scope writing(*this);
  session_.append_control(output_);
  if (bytes.size() > max_copied && session_.role() == websocket_role::server &&
      !session_.is_compressed()) {
    // The transport sends the header together with the bytes.
    session_.append_header(kind, bytes.size(), output_);
    co_await transport_->send(output_.bytes());
    output_.clear();
    co_await transport_->send(bytes);
  } else {
    session_.begin_message(kind, bytes.size());
    for (bool is_complete = false; !is_complete;) {
      is_complete = session_.append_data(bytes, output_);
      if (is_complete && session_.has_control_output()) session_.append_control(output_);
      co_await transport_->send(output_.bytes());
      output_.clear();
    }
  }
  if (session_.has_control_output()) co_await write_control();
  writing.complete();
}

// Returns the frame of a message as this server sends it.
std::span<const std::byte> websocket_core::frame_of(const prepared_message& message) const {
  const encoded_message& encoded = *message.encoded_;
  const auto window = session_.shared_window_bits();
  const bool is_packed = window && !encoded.packed.empty() && encoded.packed_window_bits <= *window;
  return is_packed ? encoded.packed : encoded.frame;
}

task<> websocket_core::send(prepared_message message) {
  auto sending = session_.role() == websocket_role::client ? send(message.kind(), message.bytes())
                                                           : send_all({&message, 1});
  co_await std::move(sending);
}

task<> websocket_core::send_all(std::span<const prepared_message> messages) {
  const auto guard = co_await write_mutex_.lock();
  check_may_send();
  write_scope writing(*this);
  session_.append_control(output_);
  for (const prepared_message& each : messages) {
    std::span<const std::byte> long_frame;  // a frame that is sent without a copy
    if (session_.role() == websocket_role::client) {
      session_.begin_message(each.kind(), each.bytes().size());
      std::span<const std::byte> rest = each.bytes();
      while (!session_.append_data(rest, output_)) {
      }
    } else if (const auto frame = frame_of(each); frame.size() > max_copied) {
      long_frame = frame;
    } else {
      output_.append(frame);
    }
    const bool is_last = &each == &messages.back();
    if (!output_.empty() && (is_last || !long_frame.empty() || output_.size() >= max_gathered)) {
      co_await transport_->send(output_.bytes());
      output_.clear();
    }
    if (!long_frame.empty()) co_await transport_->send(long_frame);
  }
  if (session_.has_control_output()) co_await write_control();
  writing.complete();
  trim_output();
}

task<> websocket_core::write_control() {
  while (session_.has_control_output()) {
    session_.append_control(output_);
    co_await transport_->send(output_.bytes());
    output_.clear();
  }
}

// Sends the control frames, unless another coroutine writes, which then sends them.
task<> websocket_core::flush_control() {
  if (is_writing_ || has_failed_) co_return;
  const auto guard = co_await write_mutex_.lock();
  if (has_failed_) co_return;
  write_scope writing(*this);
  co_await write_control();
  writing.complete();
}

void websocket_core::trim_output() noexcept {
  if (!is_writing_ && output_.capacity() > max_kept_output) output_ = io::buffer({.prepend = 0});
}

// --- Closing ---

task<> websocket_core::send_close(close_code code, std::string reason) {
  if (session_.has_sent_close() || has_ended_) co_return;
  session_.send_close(code, reason);
  close_begin_ = loop_.now();
  auto flushing = as_result(with_timeout(flush_control(), close_limit()));
  co_await std::move(flushing);
}

task<> websocket_core::close(close_code code, std::string reason) {
  auto sending = send_close(code, std::move(reason));
  co_await std::move(sending);
  while (!has_ended_ && !has_failed_) {
    if (!is_receiving_) {
      closer_receives_ = is_closers_call_ = true;
      auto receiving = as_result(receive(receiving::pieces));
      const auto received = co_await std::move(receiving);
      closer_receives_ = false;
      if (!received) break;
    } else {
      // The coroutine that receives may have ended this wait by a message.
      if (is_waiting_) arm_timer();
      auto waiting = as_result(with_timeout(wait_for_receiver(), close_limit()));
      co_await std::move(waiting);
      if (loop_.now() >= end_of(close_begin_, timeouts_.close)) break;
    }
  }
  has_ended_ = true;
}

task<> websocket_core::wait_for_receiver() {
  has_close_waiter_ = true;
  receive_ended_.reset();
  co_await receive_ended_.wait();
}

// Returns the rest of the time for the peer's Close frame.
duration websocket_core::close_limit() const noexcept {
  const steady_time end = end_of(close_begin_, timeouts_.close);
  return end == steady_time::max() ? duration::max() : duration(end - loop_.now());
}

}  // namespace gyre::http::detail
