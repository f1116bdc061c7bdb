// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_client_stream.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/http2_client_connection.hpp>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr const char* sending_frames = "sending the request";

}  // namespace

http2_client_stream::http2_client_stream(std::shared_ptr<http2_client_connection> connection)
    : connection_(*connection),
      keeper_(std::move(connection)),
      is_reused_(connection_.has_answered()) {}

// --- Events of the session ---

void http2_client_stream::receive_interim(const header_block& head) {
  const auto status = gyre::detail::parse_decimal<std::uint16_t>(head[0].value);
  if (++interim_count_ > connection_.options().limits.interim_responses || !status) {
    return refuse(errc::unexpected_status);
  }
  interim_.push_back(*status);
  receive_event_.set();
}

void http2_client_stream::receive_head(header_block head, bool is_end) {
  head_ = std::move(head);
  has_head_ = true;
  is_head_last_ = is_end;
  has_end_ = is_end;
  receive_event_.set();
}

void http2_client_stream::receive(std::span<const std::byte> bytes) {
  arrived_bytes_.append(bytes);
  receive_event_.set();
}

void http2_client_stream::receive_end(header_block trailers) {
  response_trailers_ = std::move(trailers);
  has_end_ = true;
  receive_event_.set();
}

void http2_client_stream::refuse(errc error) {
  head_error_ = error;
  connection_.session().reset(id_, http2_error::cancel);
  receive_event_.set();
}

void http2_client_stream::close(const http2_event& event) noexcept {
  reset_error_ = event.error;
  is_own_reset_ = event.is_own_reset;
  mark_closed();
}

void http2_client_stream::lose(const std::exception_ptr& error) noexcept {
  is_lost_ = true;
  lost_error_ = error;
  mark_closed();
}

void http2_client_stream::mark_closed() noexcept {
  is_closed_ = true;
  connection_.remove_stream(*this);
  if (is_abandoned_) {
    delete this;
    return;
  }
  send_event_.set();
  receive_event_.set();
}

// --- Sending ---

task<bool> http2_client_stream::allows_websocket(const request_clock& clock, steady_time expiry) {
  constexpr const char* phase = "waiting for SETTINGS";
  while (!connection_.session().has_settings()) {
    if (is_closed_) fail_closed(clock, phase);
    receive_event_.reset();
    auto wait = clock.wait(receive_event_.wait(), expiry, phase);
    co_await std::move(wait);
  }
  co_return connection_.session().allows_websockets();
}

task<> http2_client_stream::send_head(message content, const request_clock& clock,
                                      std::chrono::nanoseconds /*limit*/) {
  if (is_closed_) fail_closed(clock, sending_frames);
  header_block& head = connection_.scratch_head();
  head.clear();
  add_request_head(content.request, content.route, content.framing, head);
  if (!http2_session::may_send(head)) {
    is_too_long_ = true;
    clock.fail(errc::fields_too_large, sending_frames);
  }
  const bool has_body =
      content.framing.is_chunked() || content.framing.content_length().value_or(0) != 0;
  if (!content.body.empty()) {
    short_body_ = content.body;
    rest_ = short_body_;
    has_more_output_ = false;
  } else if (!has_body) {
    has_more_output_ = false;
  }
  if (!content.route.connect_protocol.empty()) {
    is_websocket_ = true;
    connection_.note_websocket();
  }
  id_ = connection_.session().request(head, has_body ? this : nullptr, this);
  connection_.schedule_flush();
  if (id_ == 0) {
    has_send_failed_ = true;
    clock.fail(errc::request_refused, sending_frames);
  }
  co_return;
}

task<> http2_client_stream::send_body(message_writer& framing, std::span<const std::byte> bytes,
                                      const request_clock& clock, std::chrono::nanoseconds limit) {
  // Makes the session forget the bytes, which belong to the program, when the coroutine ends.
  struct lent_bytes {
    explicit lent_bytes(http2_client_stream& borrower) noexcept : stream(borrower) {}
    lent_bytes(const lent_bytes&) = delete;
    lent_bytes& operator=(const lent_bytes&) = delete;
    ~lent_bytes() { stream.rest_ = {}; }
    http2_client_stream& stream;
  };
  const lent_bytes loan(*this);
  rest_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const bool is_last = !framing.is_chunked() && framing.missing() == 0;
  if (is_last) has_more_output_ = false;
  if (!is_closed_) connection_.resume_stream(id_);
  std::size_t unsent_size = rest_.size();
  steady_time expiry = clock.expiry_of(limit);
  while (!rest_.empty()) {
    if (is_closed_ || !connection_.can_send()) {
      has_send_failed_ = true;
      if (!is_closed_ || (has_end_ && !is_lost_)) {
        clock.fail(std::make_error_code(std::errc::broken_pipe), sending_frames);
      }
      fail_closed(clock, sending_frames);
    }
    send_event_.reset();
    auto wait = clock.wait(send_event_.wait(), expiry, sending_frames);
    co_await std::move(wait);
    if (std::exchange(unsent_size, rest_.size()) != rest_.size()) expiry = clock.expiry_of(limit);
  }
}

task<> http2_client_stream::end_body(const message_writer& framing, const http::fields& trailers,
                                     const request_clock& clock,
                                     std::chrono::nanoseconds /*limit*/) {
  if (!has_more_output_) co_return;
  if (framing.is_chunked() && !trailers.empty()) {
    auto block = std::make_unique<header_block>();
    for (const auto& [name, value] : trailers) block->add_lowered(name, value);
    if (!http2_session::may_send(*block)) {
      clock.fail(errc::fields_too_large, "sending the trailers");
    }
    request_trailers_ = std::move(block);
  }
  has_more_output_ = false;
  if (!is_closed_) connection_.resume_stream(id_);
  co_return;
}

http2_body_source::offer http2_client_stream::offer_bytes(std::size_t max_size) noexcept {
  const std::size_t size = std::min(rest_.size(), max_size);
  return {.size = size, .is_last = size == rest_.size() && !has_more_output_};
}

bool http2_client_stream::take_bytes(io::buffer& output, std::size_t size) {
  output.append(rest_.substr(0, size));
  rest_.remove_prefix(size);
  connection_.note_taken();
  return true;
}

void http2_client_stream::wake_sender() noexcept { send_event_.set(); }

// --- Receiving ---

bool http2_client_stream::has_input() noexcept {
  return head_error_ != no_error || !interim_.empty() || has_head_ || !arrived_bytes_.empty() ||
         (has_end_ && !is_end_taken_);
}

task<bool> http2_client_stream::receive(const request_clock& clock, steady_time expiry,
                                        const char* phase) {
  for (;;) {
    if (has_input()) co_return true;
    if (is_closed_) {
      const bool has_all = is_end_taken_ && !is_lost_;
      if (has_all || (is_lost_ && lost_error_ == nullptr)) co_return false;
      fail_closed(clock, phase);
    }
    receive_event_.reset();
    auto wait = clock.wait(receive_event_.wait(), expiry, phase);
    co_await std::move(wait);
  }
}

std::expected<bool, errc> http2_client_stream::take_head(incoming_response& response) {
  if (!interim_.empty()) {
    response.take_interim(interim_.front());
    interim_.erase(interim_.begin());
    return true;
  }
  if (head_error_ != no_error) return std::unexpected(head_error_);
  if (!has_head_) return false;
  has_head_ = false;
  is_end_taken_ = is_head_last_;
  const errc error = response.take_head(std::move(head_), is_head_last_);
  if (error != no_error) return std::unexpected(error);
  return true;
}

std::expected<std::span<const std::byte>, errc> http2_client_stream::take_piece(
    incoming_response& response) {
  taken_bytes_.clear();
  if (!arrived_bytes_.empty()) {
    taken_bytes_.swap(arrived_bytes_);
    const std::span<const std::byte> bytes = taken_bytes_.bytes();
    if (!is_closed_ && !has_end_) connection_.credit(id_, bytes.size());
    if (const errc error = response.take_piece(bytes.size()); error != no_error) {
      return std::unexpected(error);
    }
    return bytes;
  }
  if (has_end_ && !std::exchange(is_end_taken_, true)) response.end_body(response_trailers_);
  return std::span<const std::byte>();
}

// --- The end ---

bool http2_client_stream::is_unprocessed() const noexcept {
  if (is_too_long_) return false;
  if (id_ == 0 || (is_closed_ && !is_sent_)) return true;
  return is_closed_ && !is_lost_ && !is_own_reset_ &&
         (reset_error_ == http2_error::refused_stream || requires_http1());
}

bool http2_client_stream::requires_http1() const noexcept {
  return is_closed_ && !is_own_reset_ && reset_error_ == http2_error::http_1_1_required;
}

void http2_client_stream::fail_closed(const request_clock& clock, const char* phase) const {
  if (lost_error_ != nullptr) std::rethrow_exception(clock.add_name(lost_error_));
  if (is_lost_) clock.fail(std::make_error_code(std::errc::connection_reset), phase);
  if (is_own_reset_) {
    clock.fail(errc::http2_violation, std::string(phase) + ": the response is malformed");
  }
  if (is_unprocessed()) clock.fail(errc::request_refused, phase);
  clock.fail(errc::stream_reset, std::string(phase) + ": RST_STREAM with " + name_of(reset_error_));
}

void http2_client_stream::release() noexcept {
  const std::shared_ptr<http2_client_connection> connection = std::move(keeper_);
  if (is_closed_ || id_ == 0) {
    connection->remove_stream(*this);
    delete this;
  } else {
    is_abandoned_ = true;
    // The session itself closes the stream of a complete exchange after END_STREAM.
    const bool is_complete = has_end_ && !has_more_output_ && rest_.empty();
    if (is_websocket_ && has_end_ && rest_.empty()) {
      has_more_output_ = false;
      connection->session().resume(id_);
    } else if (!is_complete) {
      rest_ = {};
      has_more_output_ = true;
      connection->session().reset(id_, http2_error::cancel);
    }
    arrived_bytes_ = io::buffer({.prepend = 0});
    taken_bytes_ = io::buffer({.prepend = 0});
  }
  connection->note_change();
}

}  // namespace gyre::http::detail
