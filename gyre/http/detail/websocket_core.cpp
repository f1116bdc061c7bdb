// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_core.hpp>

#include <gyre/http/detail/encoded_message.hpp>
#include <gyre/http/detail/max_copied.hpp>
#include <gyre/http/detail/spare_buffers.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/schedule.hpp>
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

// A wait of a receive. Input may have ended it before.
class websocket_core::wait_scope {
 public:
  explicit wait_scope(websocket_core& core) noexcept : core_(core) {
    core.is_waiting_ = true;
    core.is_interrupted_ = false;
    core.wake_.reset();
    core.arm_timer();
  }
  wait_scope(const wait_scope&) = delete;
  wait_scope& operator=(const wait_scope&) = delete;
  ~wait_scope() {
    if (core_.is_waiting_) core_.transport_->end_wait();
    core_.is_waiting_ = false;
  }

 private:
  websocket_core& core_;
};

// The scope of a write to the transport, with a buffer for its frames.
class websocket_core::write_scope {
 public:
  explicit write_scope(websocket_core& core) noexcept : core_(core) {
    core.is_writing_ = true;
    take_spare_buffer(output);
  }
  write_scope(const write_scope&) = delete;
  write_scope& operator=(const write_scope&) = delete;
  ~write_scope() {
    core_.is_writing_ = false;
    keep_spare_buffer(output);
    // A frame that was sent in part, by a stopped or failed task, cannot be continued.
    if (!is_complete_) core_.has_failed_ = true;
  }
  void complete() noexcept { is_complete_ = true; }

  io::buffer output{{.prepend = 0}};

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
      session_(role, settings_pointer::share(options), options.compression, std::move(agreement)),
      clock_(loop.now()) {
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
  if (mode == receiving::pieces && session_.is_within_message()) {
    clock_.end_message(loop_.recent_time());
    clock_.begin_message(loop_.recent_time());
  }
  for (;;) {
    const auto event = next_event(mode);
    if (session_.has_control_output()) co_await flush_control();
    if (event == websocket_session::event::message) {
      clock_.end_message(loop_.recent_time());
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
    check_transport();
    results_in_a_row_ = 0;
    note_message_begin();
    if (goes_away_ && !session_.has_sent_close()) {
      co_await on_interruption();
      continue;
    }
    mode_ = mode;
    {
      const wait_scope waits(*this);
      if (auto reading = transport_->begin_wait(*this)) {
        co_await std::move(*reading);
        clock_.note_input(loop_.now());
      } else {
        co_await wake_.wait();
      }
    }
    if (is_interrupted_ && !event_ && transport_->input().empty()) co_await on_interruption();
  }
}

// Returns the event that came while the receive waited, or the next one of bytes that have come.
websocket_session::event websocket_core::next_event(receiving mode) {
  if (event_) return *std::exchange(event_, std::nullopt);
  std::span<const std::byte> input = transport_->input();
  const std::size_t size = input.size();
  if (size != 0) clock_.note_input(loop_.now());
  const websocket_session::event event = session_.next(input, mode);
  transport_->consume(size - input.size());
  return event;
}

void websocket_core::note_message_begin() noexcept {
  if (!session_.is_within_message()) {
    clock_.end_message(loop_.recent_time());
  } else {
    clock_.begin_message(loop_.recent_time());
  }
}

// Throws if the transport has ended or failed, so that no more bytes can come.
void websocket_core::check_transport() {
  if (has_ended_) fail(websocket_errc::ended);
  try {
    if (!transport_->has_ended()) return;
  } catch (...) {
    has_ended_ = true;
    throw;
  }
  fail(websocket_errc::ended);
}

// Passes bytes of the transport to the session while a receive() waits for them.
void websocket_core::on_input(io::input& input) {
  clock_.note_input(loop_.now());
  std::span<const std::byte> bytes = input.bytes();
  const websocket_session::event event = session_.next(bytes, mode_);
  input.consume(input.size() - bytes.size());
  if (event != websocket_session::event::wants_input) {
    event_ = event;
  } else if (!session_.has_control_output()) {
    note_message_begin();
    return arm_timer();
  }
  end_wait();
}

void websocket_core::on_input_ended() noexcept { end_wait(); }

void websocket_core::end_wait() noexcept {
  is_waiting_ = false;
  transport_->end_wait();
  wake_.set();
}

task<> websocket_core::on_interruption() {
  if (goes_away_ && !session_.has_sent_close()) {
    session_.send_close(close_code::going_away, {});
    clock_.note_close(loop_.now());
  } else if (loop_.now() < next_deadline()) {
    co_return;
  } else if (session_.has_sent_close()) {
    fail(websocket_errc::ended);
  } else if (session_.is_within_message()) {
    session_.send_close(close_code::policy_violation, "the message took too long");
    has_ended_ = true;
  } else if (clock_.awaits_pong()) {
    fail(websocket_errc::silent_peer);
  } else {
    session_.send_ping();
    clock_.note_ping(loop_.now());
  }
  co_await flush_control();
  if (has_ended_) fail(websocket_errc::message_timeout);
}

// --- Time limits ---

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
  if (!is_waiting_) return;
  is_interrupted_ = true;
  transport_->interrupt();
  wake_.set();
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
  io::buffer& output = writing.output;
  session_.append_control(output);
  if (bytes.size() > max_copied && session_.role() == websocket_role::server &&
      !session_.is_compressed()) {
    // The transport sends the header together with the bytes.
    session_.append_header(kind, bytes.size(), output);
    if (auto rest = transport_->send(output.bytes())) co_await std::move(*rest);
    output.clear();
    if (auto rest = transport_->send(bytes)) co_await std::move(*rest);
  } else {
    session_.begin_message(kind, bytes.size());
    for (bool is_complete = false; !is_complete;) {
      is_complete = session_.append_data(bytes, output);
      if (is_complete && session_.has_control_output()) session_.append_control(output);
      if (auto rest = transport_->send(output.bytes())) co_await std::move(*rest);
      output.clear();
    }
  }
  if (session_.has_control_output()) co_await write_control(output);
  writing.complete();
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
  io::buffer& output = writing.output;
  session_.append_control(output);
  for (const prepared_message& each : messages) {
    std::span<const std::byte> long_frame;  // a frame that is sent without a copy
    if (session_.role() == websocket_role::client) {
      session_.begin_message(each.kind(), each.bytes().size());
      std::span<const std::byte> rest = each.bytes();
      while (!session_.append_data(rest, output)) {
      }
    } else if (const auto frame = session_.frames_of(*each.encoded_); frame.size() > max_copied) {
      long_frame = frame;
    } else {
      output.append(frame);
    }
    const bool is_last = &each == &messages.back();
    if (!output.empty() && (is_last || !long_frame.empty() || output.size() >= max_gathered)) {
      if (auto rest = transport_->send(output.bytes())) co_await std::move(*rest);
      output.clear();
    }
    if (!long_frame.empty()) {
      if (auto rest = transport_->send(long_frame)) co_await std::move(*rest);
    }
  }
  if (session_.has_control_output()) co_await write_control(output);
  writing.complete();
}

task<> websocket_core::write_control(io::buffer& output) {
  while (session_.has_control_output()) {
    session_.append_control(output);
    if (auto rest = transport_->send(output.bytes())) co_await std::move(*rest);
    output.clear();
  }
}

// Sends the control frames, unless another coroutine writes, which then sends them.
task<> websocket_core::flush_control() {
  if (is_writing_ || has_failed_) co_return;
  const auto guard = co_await write_mutex_.lock();
  if (has_failed_) co_return;
  write_scope writing(*this);
  co_await write_control(writing.output);
  writing.complete();
}

// --- Closing ---

task<> websocket_core::send_close(close_code code, std::string reason) {
  if (session_.has_sent_close() || has_ended_) co_return;
  session_.send_close(code, reason);
  clock_.note_close(loop_.now());
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
      if (loop_.now() >= next_deadline()) break;
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
  const steady_time end = next_deadline();
  return end == steady_time::max() ? duration::max() : duration(end - loop_.now());
}

}  // namespace gyre::http::detail
