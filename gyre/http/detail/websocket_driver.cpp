// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_driver.hpp>

#include <gyre/exec/event_loop.hpp>
#include <gyre/http/detail/broadcast_target.hpp>
#include <gyre/http/detail/encoded_message.hpp>
#include <gyre/http/detail/max_copied.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/stop_token.hpp>

#include <cstdint>
#include <utility>

namespace gyre::http::detail {
namespace {

// A peer whose messages have come already must not keep the loop busy.
constexpr std::uint32_t max_messages_in_a_row = 128;

}  // namespace

// The subscriptions of a socket to broadcasts, whose coroutines may outlive the socket.
class websocket_driver::broadcast_link final : public broadcast_target {
 public:
  explicit broadcast_link(websocket_driver& socket) noexcept : socket_(&socket) {}

  bool is_open() const noexcept override { return socket_ != nullptr && socket_->is_open(); }
  task<> close(close_code code, std::string_view reason) override {
    if (socket_ != nullptr) socket_->close(code, reason);
    co_return;
  }
  // Waits while much output waits, so that a peer that does not read becomes a slow subscriber.
  task<> send_all(std::span<const prepared_message> messages) override {
    for (const prepared_message& each : messages) {
      while (is_open() && socket_->pending_output() > socket_->max_pending()) {
        writable_.reset();
        co_await writable_.wait();
      }
      if (!is_open()) co_return;
      socket_->send_encoded(each, socket_->session_.frames_of(*each.encoded_));
    }
  }

  inplace_stop_token stop_token() const noexcept { return stop_.get_token(); }
  void wake() noexcept { writable_.set(); }
  void end() noexcept {
    socket_ = nullptr;
    writable_.set();
    stop_.request_stop();
  }

 private:
  websocket_driver* socket_;  // null after its end
  manual_reset_event writable_;
  inplace_stop_source stop_;
};

websocket_driver::websocket_driver(steady_time now, websocket_role role,
                                   const websocket_options& options, websocket_agreement agreement,
                                   websocket_face face)
    : timer_operation(
          [](timer_operation& timer) { static_cast<websocket_driver&>(timer).on_timer(); }),
      clock_(now),
      session_(role, settings_pointer::share(options), options.compression, std::move(agreement)),
      is_awaited_(face == websocket_face::coroutines),
      is_paused_(face == websocket_face::coroutines) {}

websocket_driver::extra_state& websocket_driver::extras() {
  if (extras_ == nullptr) extras_ = std::make_unique<extra_state>();
  return *extras_;
}

void websocket_driver::abandon() noexcept {
  if (!has_ended_) {
    has_ended_ = true;
    is_opened_ = false;
    report_end(websocket_errc::ended, {}, /*has_left=*/true);
  }
  if (linked()) loop().cancel_timer(*this);
}

// --- Turns ---

template <class Work>
void websocket_driver::run_turn(Work work) noexcept {
  const bool is_within_turn = is_in_turn_;
  is_in_turn_ = true;
  try {
    work();
    if (is_within_turn) return;
    if (!has_ended_) flush_all();
    if (!has_ended_) report_written();
  } catch (...) {
    end(io::errc::aborted, std::current_exception());
    if (is_within_turn) return;
  }
  is_in_turn_ = false;
  if (!has_ended_) {
    update_reading();
    arm_timer();
  }
  if (is_awaited_) on_turn_ended();
}

void websocket_driver::take_input(io::input& input) {
  run_turn([&] {
    if (!is_opened_) {
      is_opened_ = true;
      deliver_open();
      if (is_stopping() && !is_awaited_) go_away();
    }
    receive(input);
  });
  if (has_ended_) input.consume_all();
}

// Whether messages are delivered or dropped now, instead of staying with the transport.
bool websocket_driver::takes_messages() const noexcept {
  if (is_closing_) return true;
  return !is_paused_ && (is_awaited_ || pending_output() <= max_pending());
}

void websocket_driver::receive(io::input& input) {
  if (has_ended_ || (input.empty() && !is_awaited_)) return;
  const steady_time now = loop().recent_time();
  if (!input.empty()) clock_.note_input(now);
  std::span<const std::byte> rest = input.bytes();
  std::uint32_t count = 0;
  for (; count < max_messages_in_a_row && takes_messages(); ++count) {
    const auto event = session_.next(rest, is_closing_ ? receiving::pieces : mode_);
    if (event == websocket_session::event::wants_input) break;
    if (event != websocket_session::event::message) {
      const bool is_closed = event == websocket_session::event::closed;
      input.consume(input.size() - rest.size());
      return end(is_closed ? std::error_code() : make_error_code(session_.error()));
    }
    clock_.end_message(now);
    if (!is_closing_) deliver_message(session_.data());
    if (has_ended_) return;
  }
  input.consume(input.size() - rest.size());
  if (is_awaited_) {
    // The session may have more pieces, even without input.
    if (count == max_messages_in_a_row && takes_messages()) schedule_turn();
  } else if (!rest.empty() && !is_paused_) {
    deliver_rest();
  }
  if (session_.is_within_message()) {
    clock_.begin_message(now);
  } else {
    clock_.end_message(now);
  }
}

void websocket_driver::receive_now() noexcept {
  run_turn([this] { receive_held(); });
}

void websocket_driver::end_now(std::error_code reason, std::exception_ptr failure) noexcept {
  run_turn([&] { end(reason, std::move(failure)); });
}

void websocket_driver::on_output_taken() noexcept {
  if (has_ended_) return;
  run_turn([this] { wake_broadcasts(); });
}

void websocket_driver::on_disconnected() noexcept {
  if (has_ended_) return;
  has_ended_ = true;
  report_end(websocket_errc::ended, {}, /*has_left=*/true);
}

void websocket_driver::begin_going_away() noexcept {
  const bool may_go = is_opened_ && !has_ended_ && !(is_awaited_ && is_paused_);
  if (may_go) run_turn([this] { go_away(); });
}

void websocket_driver::go_away() {
  if (!session_.has_sent_close()) send_close(close_code::going_away, {});
}

void websocket_driver::go_away_now() noexcept {
  if (has_ended_) return;
  run_turn([this] {
    session_.send_close(close_code::going_away, {});
    end(websocket_errc::ended);
  });
}

// --- Sending ---

bool websocket_driver::send(websocket_message message) {
  if (!may_send(message.bytes.size())) return false;
  // A Pong precedes the messages that reply to later ones.
  append_control();
  append_message(message.kind, message.bytes);
  note_message();
  return true;
}

bool websocket_driver::send(prepared_message message) {
  const std::span<const std::byte> frames = session_.frames_of(*message.encoded_);
  if (!may_send(frames.size())) return false;
  send_encoded(message, frames);
  return true;
}

// Sends `frames`, which are those of a server. A client masks the message by a key of its own.
void websocket_driver::send_encoded(const prepared_message& message,
                                    std::span<const std::byte> frames) {
  append_control();
  if (session_.role() == websocket_role::client) {
    append_message(message.kind(), message.bytes());
  } else if (frames.size() > max_copied) {
    flush(frames);
  } else {
    output().append(frames);
  }
  note_message();
}

void websocket_driver::append_message(websocket_kind kind, std::span<const std::byte> bytes) {
  io::buffer& frames = output();
  if (session_.role() == websocket_role::server && !session_.is_compressed()) {
    session_.append_header(kind, bytes.size(), frames);
    if (bytes.size() > max_copied) return flush(bytes);
    return frames.append(bytes);
  }
  session_.begin_message(kind, bytes.size());
  while (!session_.append_data(bytes, frames)) {
  }
}

// Whether a message of `size` bytes may be sent. Closes the socket if too much output waits.
bool websocket_driver::may_send(std::size_t size) noexcept {
  if (!is_open() || !is_opened_) return false;
  if (is_awaited_) return true;
  const std::size_t limit = session_.settings().limits.output;
  const auto has_room = [&] {
    // A reply of any size may be sent to a message that was received.
    const std::size_t pending = pending_output();
    return pending <= max_pending() || (pending <= limit && size <= limit - pending);
  };
  if (has_room()) return true;
  flush_output();  // the system may take what waits for the end of the turn
  if (has_room()) return true;
  exceeds_limit_ = is_closing_ = true;
  try {
    send_close(close_code::policy_violation, "reads too slowly");
  } catch (...) {
    abort();
  }
  return false;
}

void websocket_driver::note_message() noexcept {
  must_report_ = !is_awaited_ && reports_writes();
  note_output();
}

// Called when bytes were added to the output. Outside of a turn of this connection, they leave
// after the tasks that are ready now.
void websocket_driver::note_output() noexcept {
  if (unsent_output() >= server_shard::max_output) flush_output();
  if (is_in_turn_) return;
  if (must_report_ || session_.has_control_output()) {
    schedule_turn();
  } else if (!schedule_flush()) {
    flush_output();
  } else {
    update_reading();
  }
}

void websocket_driver::schedule_turn() noexcept { loop().start_timer(*this, loop().recent_time()); }

// Appends control frames to the output. If the output of a coroutine's socket is full, Pongs and
// pings stay in the session, which bounds them: receiving is not paused meanwhile.
void websocket_driver::append_control() {
  if (!session_.has_control_output()) return;
  if (is_awaited_ && !has_ended_ && !session_.has_sent_close() && is_output_full()) return;
  session_.append_control(output());
}

// Sends also control frames, which follow all messages.
void websocket_driver::flush_all() {
  append_control();
  flush({});
}

// Calls on_write_complete if messages were sent, and none waits.
void websocket_driver::report_written() {
  if (!must_report_ || (pending_output() != 0 && !session_.has_sent_close())) return;
  must_report_ = false;
  if (session_.has_sent_close()) return;
  deliver_write_complete();
  flush_all();
}

// --- Receiving ---

std::size_t websocket_driver::max_pending() const noexcept {
  return max_output_while_reading(session_.settings().limits.output);
}

void websocket_driver::pause_reading() noexcept {
  if (has_ended_ || is_closing_ || is_paused_) return;
  is_paused_ = true;
  pause_input();
}

void websocket_driver::resume_reading() noexcept {
  if (has_ended_ || !is_paused_) return;
  is_paused_ = false;
  if (!is_full_) resume_input();
  arm_timer();
}

// Pauses receiving while much output waits. Messages that are dropped make no output.
void websocket_driver::update_reading() noexcept {
  if (has_ended_) return;
  const std::size_t queued = queued_output();
  const bool is_full = !is_closing_ && queued > max_pending();
  if (is_full || (must_report_ && queued != 0)) notify_when_taken();
  if (is_full == is_full_ || is_awaited_) return;
  is_full_ = is_full;
  if (is_full) {
    pause_input();
  } else if (!is_paused_) {
    resume_input();
  }
}

// --- Time limits ---

// A timer that expires before the deadline stays, and starts again when it expires, so that most
// messages start none.
void websocket_driver::arm_timer() noexcept {
  const bool must_run_again = must_report_ && queued_output() == 0;
  if (!must_run_again && !keeps_time()) return;
  const steady_time deadline =
      must_run_again ? loop().recent_time() : clock_.deadline(session_.settings());
  if (deadline == steady_time::max()) return;
  if (!linked() || deadline < timer_operation::deadline()) loop().start_timer(*this, deadline);
}

void websocket_driver::on_timer() noexcept {
  if (has_ended_ && !is_awaited_) return;
  run_turn([this] {
    if (has_ended_) return;
    act_at_deadline();
    if (is_awaited_ && !has_ended_) receive_held();
  });
}

void websocket_driver::act_at_deadline() {
  if (!keeps_time() || loop().now() < clock_.deadline(session_.settings())) return;
  if (session_.has_sent_close()) return end(websocket_errc::ended);
  if (session_.is_within_message()) {
    session_.send_close(close_code::policy_violation, "the message took too long");
    return end(websocket_errc::message_timeout);
  }
  if (clock_.awaits_pong()) return end(websocket_errc::silent_peer);
  session_.send_ping();
  clock_.note_ping(loop().now());
}

// --- Broadcasts ---

void websocket_driver::subscribe_to(websocket_broadcast& broadcast) {
  if (has_ended_ || !is_opened_) return;
  std::shared_ptr<broadcast_link>& link = extras().broadcasts;
  if (link == nullptr) link = std::make_shared<broadcast_link>(*this);
  spawn(loop(), broadcast.forward_to(link),
        {.stop = link->stop_token(), .name = "websocket broadcast"});
}

void websocket_driver::wake_broadcasts() noexcept {
  if (extras_ == nullptr || extras_->broadcasts == nullptr) return;
  if (pending_output() <= max_pending()) extras_->broadcasts->wake();
}

// --- Closing ---

void websocket_driver::begin_close(close_code code, std::string_view reason) {
  check_close(code, reason);
  if (is_closing_ || has_ended_) return;
  is_closing_ = true;
  if (is_paused_ && !is_full_) resume_input();
  is_paused_ = false;
  send_close(code, reason);
}

void websocket_driver::send_close(close_code code, std::string_view reason) {
  session_.send_close(code, reason);
  clock_.note_close(loop().recent_time());
  note_output();
}

void websocket_driver::end(std::error_code reason, std::exception_ptr failure) noexcept {
  if (has_ended_) return;
  has_ended_ = true;
  try {
    flush_all();
  } catch (...) {
    abort();
  }
  report_end(reason, std::move(failure), /*has_left=*/false);
  close_when_sent();
}

// Tells the program, and the owner of the transport, of the end.
void websocket_driver::report_end(std::error_code reason, std::exception_ptr failure,
                                  bool has_left) noexcept {
  if (extras_ != nullptr && extras_->broadcasts != nullptr) {
    extras_->broadcasts->end();
    extras_->broadcasts.reset();
  }
  if (failure) {
    reason = io::errc::aborted;
  } else if (exceeds_limit_) {
    reason = io::errc::output_limit;
  } else if (session_.received_close()) {
    reason = {};
  }
  if (is_opened_) {
    try {
      deliver_close(reason);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  drop_program();
  if (failure && !has_left && can_send()) {
    try {
      session_.send_close(close_code::internal_error, {});
      flush_all();
    } catch (...) {
      abort();
    }
  }
  conclude(failure, has_left);
}

}  // namespace gyre::http::detail
