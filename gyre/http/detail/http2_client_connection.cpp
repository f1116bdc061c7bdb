// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_client_connection.hpp>

#include <gyre/http/error.hpp>
#include <gyre/io/input.hpp>
#include <gyre/io/received.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>

#include <algorithm>
#include <chrono>

namespace gyre::http::detail {
namespace {

// Frames above this size are sent before more are made.
constexpr std::size_t max_buffered_frames = std::size_t{64} << 10;
// An idle connection holds no more memory than this for its output.
constexpr std::size_t max_idle_output = std::size_t{16} << 10;

head_limits limits_of(const client_options& options) noexcept {
  return {.start_line = options.limits.start_line,
          .fields = options.limits.fields,
          .field_count = options.limits.field_count};
}

}  // namespace

std::shared_ptr<http2_client_connection> http2_client_connection::begin(
    client_lease lease, event_loop& loop, const client_options& options, owner& first_owner) {
  auto connection =
      std::make_shared<http2_client_connection>(std::move(lease), loop, options, first_owner);
  connection->schedule_flush();
  connection->reader_.emplace(loop, read_frames(*connection));
  connection->reader_->start();
  return connection;
}

http2_client_connection::http2_client_connection(client_lease lease, event_loop& loop,
                                                 const client_options& options, owner& first_owner)
    : deadline_timer(
          [](timer_operation& timer) { static_cast<http2_client_connection&>(timer).on_timer(); }),
      loop_(loop),
      options_(options),
      owner_(&first_owner),
      lease_(std::move(lease)),
      session_(options.http2, limits_of(options)),
      flush_timer_(*this),
      end_of_life_(gyre::detail::later(loop.now(), options.max_lifetime)),
      silent_since_(loop.now()),
      idle_since_(silent_since_) {
  note_deadline(gyre::detail::later(idle_since_, options_.idle_timeout));
}

http2_client_connection::~http2_client_connection() {
  has_ended_ = true;
  close();
  while (!streams_.empty()) streams_.front().lose(nullptr);  // abandoned streams are left
}

// --- Streams ---

std::size_t http2_client_connection::max_streams() const noexcept {
  return std::min(options_.http2.max_streams, session_.max_requests());
}

bool http2_client_connection::has_room() const noexcept {
  return can_send() && stream_count_ < max_streams() && session_.may_request() &&
         loop_.now() < end_of_life_;
}

bool http2_client_connection::has_room_for_websocket() const noexcept {
  return session_.allows_websockets() && websocket_count_ < max_streams() / 2 && has_room();
}

client_stream_pointer http2_client_connection::open_stream() {
  auto* const stream = new http2_client_stream(shared_from_this());
  client_stream_pointer owned_stream(stream);
  streams_.push_back(*stream);
  if (stream_count_++ == 0) silent_since_ = loop_.now();
  if (options_.http2.ping_interval != duration::zero()) {
    note_deadline(gyre::detail::later(silent_since_, options_.http2.ping_interval));
  }
  return owned_stream;
}

void http2_client_connection::resume_stream(std::int32_t stream) noexcept {
  session_.resume(stream);
  schedule_flush();
}

void http2_client_connection::credit(std::int32_t stream, std::size_t count) noexcept {
  session_.credit_stream(stream, count);
  schedule_flush();
}

void http2_client_connection::remove_stream(http2_client_stream& stream) noexcept {
  if (!stream.is_linked()) return;
  stream.unlink();
  if (stream.is_websocket()) --websocket_count_;
  if (--stream_count_ != 0) return;
  idle_since_ = loop_.now();
  note_deadline(gyre::detail::later(idle_since_, options_.idle_timeout));
}

void http2_client_connection::note_change() noexcept {
  schedule_flush();
  if (owner_ != nullptr && has_room()) owner_->on_room();
}

// --- Receiving ---

task<> http2_client_connection::read_frames(http2_client_connection& self) {
  std::exception_ptr error;
  try {
    while (!self.has_ended_) {
      task<io::received> receive_task = self.lease_->receive();
      const io::received bytes = co_await std::move(receive_task);
      self.lease_->note_received();
      if (bytes.empty()) break;
      self.receive(bytes.bytes());
    }
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  self.end(error);
}

void http2_client_connection::receive(std::span<const std::byte> bytes) {
  const steady_time time = loop_.now();
  silent_since_ = time;
  ping_deadline_ = steady_time::max();
  if (has_write_failed_) begin_write_limit();
  const bool had_room = has_room();
  const bool had_settings = session_.has_settings();
  io::input input(bytes);
  while (!input.empty() && !has_ended_) {
    const bool reads_on = session_.receive(input, time);
    handle_events();
    if (!reads_on) break;
  }
  end_if_over();
  if (has_ended_) return;
  schedule_flush();
  if (!had_settings && session_.has_settings()) {
    for (http2_client_stream& stream : streams_) stream.note_settings();
  }
  if (!had_room && has_room() && owner_ != nullptr) owner_->on_room();
}

void http2_client_connection::handle_events() {
  while (const auto event = session_.next_event()) handle_event(*event);
}

void http2_client_connection::handle_event(const http2_event& event) {
  auto* const stream = static_cast<http2_client_stream*>(event.owner);
  using kind = http2_event::kind;
  if (event.what == kind::data) session_.credit_connection(event.bytes.size());
  if (stream == nullptr) return;
  if (stream->is_abandoned() && event.what != kind::closed) return;
  switch (event.what) {
    case kind::response:
      has_answered_ = true;
      return stream->receive_head(session_.take_head(), event.is_end);
    case kind::interim: return stream->receive_interim(session_.head());
    case kind::refused: return stream->refuse(errc::fields_too_large);
    case kind::data: return stream->receive(event.bytes);
    case kind::end: return stream->receive_end(session_.take_head());
    case kind::sent: return stream->note_sent();
    case kind::closed: stream->close(event); return note_change();
    case kind::request: return;
  }
}

// --- Sending ---

void http2_client_connection::schedule_flush() noexcept {
  if (has_ended_ || is_writing_ || flush_timer_.linked()) return;
  loop_.start_timer(flush_timer_, loop_.deadline_after(duration::zero()));
}

void http2_client_connection::flush() {
  if (has_ended_ || is_writing_ || has_write_failed_) return;
  is_writing_ = true;
  writer_.emplace(loop_, write_frames(*this));
  writer_->start();
}

// Writes frames until there are none. Waits until the socket has taken the frames before it makes
// more, so that bodies wait in the program.
task<> http2_client_connection::write_frames(http2_client_connection& self) {
  std::exception_ptr error;
  try {
    for (;;) {
      self.fill_output();
      if (self.has_ended_ || self.output_.empty()) break;
      while (!self.output_.empty()) {
        self.begin_write_limit();
        auto write_task = as_result(self.lease_->write_some(self.output_.bytes()));
        const auto count = co_await std::move(write_task);
        if (!count) {
          self.on_write_failed(count.error());
          co_return;
        }
        self.output_.consume(*count);
      }
    }
  } catch (...) {
    error = gyre::detail::caught_error();
  }
  self.is_writing_ = false;
  self.write_deadline_ = steady_time::max();
  if (error != nullptr) self.end(error);
  self.end_if_over();
}

// Reading continues while bytes come: the server may have responded before it closed the
// connection.
void http2_client_connection::on_write_failed(const std::exception_ptr& error) noexcept {
  has_write_failed_ = true;
  wake_senders();
  if (streams_.empty()) end(error);
}

void http2_client_connection::begin_write_limit() noexcept {
  const duration limit = options_.timeouts.send;
  if (limit == duration::zero()) return;
  write_deadline_ = loop_.deadline_after(limit);
  note_deadline(write_deadline_);
}

void http2_client_connection::fill_output() {
  const steady_time time = loop_.now();
  output_.clear();
  while (output_.size() < max_buffered_frames && session_.append_output(output_, time)) {
  }
  handle_events();
  if (std::exchange(has_taken_, false)) wake_senders();
  if (output_.empty() && output_.capacity() > max_idle_output) output_ = io::buffer({.prepend = 0});
}

void http2_client_connection::wake_senders() noexcept {
  for (http2_client_stream& stream : streams_) stream.wake_sender();
}

// --- The end ---

void http2_client_connection::end_if_over() noexcept {
  if (has_ended_ || !session_.is_over()) return;
  if (streams_.empty()) return end(nullptr);
  fail(errc::http2_violation, session_.abuse() == http2_abuse::none
                                  ? "receiving frames of HTTP/2"
                                  : "receiving too many frames of HTTP/2, or too large ones");
}

void http2_client_connection::fail(std::error_code error, const char* reason) noexcept {
  end(std::make_exception_ptr(std::system_error(error, reason)));
}

// Closes all streams. A timer closes the connection, because its coroutines may be what calls this.
void http2_client_connection::end(const std::exception_ptr& error) noexcept {
  if (std::exchange(has_ended_, true)) return;
  while (!streams_.empty()) streams_.front().lose(error);
  set_deadline(loop_, loop_.deadline_after(duration::zero()));
  if (owner_ != nullptr) owner_->on_ended();
}

void http2_client_connection::close() noexcept {
  cancel(loop_);
  if (flush_timer_.linked()) loop_.cancel_timer(flush_timer_);
  writer_.reset();
  reader_.reset();
  lease_ = {};
}

// --- Time limits ---

void http2_client_connection::note_deadline(steady_time deadline) noexcept {
  if (!has_ended_) bring_forward(loop_, deadline);
}

void http2_client_connection::on_timer() {
  if (has_ended_) {
    const std::shared_ptr<http2_client_connection> self = shared_from_this();
    close();
    if (owner_ != nullptr) owner_->on_closed(*this);
    return;
  }
  if (!has_expired(loop_)) return;
  clear_deadline();
  apply_time_limits(loop_.now());
}

void http2_client_connection::apply_time_limits(steady_time time) {
  if (time >= write_deadline_) return fail(errc::timed_out, "sending the request");
  if (time >= ping_deadline_) return fail(errc::timed_out, "waiting for the answer to PING");
  note_deadline(write_deadline_);
  note_deadline(ping_deadline_);
  if (streams_.empty()) {
    const steady_time idle_end = gyre::detail::later(idle_since_, options_.idle_timeout);
    if (time >= idle_end) return end(nullptr);
    return note_deadline(idle_end);
  }
  const duration interval = options_.http2.ping_interval;
  if (interval == duration::zero() || ping_deadline_ != steady_time::max()) return;
  const steady_time silence_end = gyre::detail::later(silent_since_, interval);
  if (time < silence_end) return note_deadline(silence_end);
  session_.ping();
  ping_deadline_ = gyre::detail::later(time, options_.http2.ping_timeout);
  note_deadline(ping_deadline_);
  schedule_flush();
}

}  // namespace gyre::http::detail
