// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_connection.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gyre::http::detail {
namespace {

// Frames above this size are sent at once instead of at the end of the turn.
constexpr std::size_t max_buffered_output = std::size_t{64} << 10;
// After this many bytes other connections have their turn.
constexpr std::size_t max_sent_in_a_row = std::size_t{256} << 10;

}  // namespace

std::unique_ptr<connection_protocol> make_http2_connection(net::tcp_connection& tcp,
                                                           server_shard& shard,
                                                           std::shared_ptr<server_core> core) {
  return std::make_unique<http2_connection>(tcp, shard, std::move(core));
}

http2_connection::http2_connection(net::tcp_connection& tcp, server_shard& shard,
                                   std::shared_ptr<server_core> core)
    : timer_operation(
          [](timer_operation& timer) { static_cast<http2_connection&>(timer).on_deadline(); }),
      tcp_(tcp),
      shard_(shard),
      core_(std::move(core)),
      detached_(std::make_shared<std::size_t>(0)),
      self_(std::make_shared<http2_connection*>(this)),
      session_(core_->options.http2, core_->head_limits),
      idle_since_(shard.loop().recent_time()) {
  shard_.counts.http2_connections.add(1);
  const duration limit = core_->options.timeouts.idle;
  if (limit.count() != 0) note_deadline(gyre::detail::later(idle_since_, limit));
  // The stop may have begun while this loop had no connection: see server_connection.
  if (core_->is_draining()) shard_.stopping.request_stop();
  schedule_flush();  // the server's SETTINGS need not wait for the client
}

http2_connection::~http2_connection() {
  is_closing_ = true;
  if (linked()) shard_.loop().cancel_timer(*this);
  *self_ = nullptr;
  detach_all();
  while (!streams_.empty()) remove(streams_.front());
}

steady_time http2_connection::current_time() const noexcept {
  return is_in_turn_ ? shard_.turn_begun : shard_.loop().now();
}

std::shared_ptr<server_core> http2_connection::keep_slot() const {
  ++*detached_;
  return {core_.get(), [core = core_, count = detached_](server_core*) { --*count; }};
}

// --- Input ---

void http2_connection::on_message(io::input& input) {
  is_in_turn_ = true;
  shard_.turn_begun = shard_.loop().recent_time();
  const std::size_t before = shard_.counts.requests.get();
  while (!input.empty() && !is_closing_) {
    if (shard_.counts.requests.get() - before >= core_->options.limits.pipelined) {
      tcp_.pause_reading();
      tcp_.resume_reading();  // the rest is delivered in the loop's next turn
      break;
    }
    const bool reads_on = session_.receive(input, shard_.turn_begun);
    handle_events();
    if (!reads_on) break;
  }
  if (is_closing_) input.consume_all();
  is_in_turn_ = false;
  if (!session_.awaits_rest_of_head()) {
    head_begun_ = steady_time::max();
  } else if (head_begun_ == steady_time::max()) {
    head_begun_ = shard_.turn_begun;
    const duration limit = core_->options.timeouts.head;
    if (limit.count() != 0) note_deadline(gyre::detail::later(head_begun_, limit));
  }
  flush();
}

void http2_connection::handle_events() {
  while (const auto event = session_.next_event()) handle(*event);
}

void http2_connection::handle(const http2_event& event) {
  auto* const stream = static_cast<http2_stream*>(event.owner);
  switch (event.what) {
    case http2_event::kind::request:
    case http2_event::kind::refused: return begin_request(event);
    case http2_event::kind::data:
      if (stream == nullptr) return session_.credit_connection(event.bytes.size());
      return stream->receive(event.bytes);
    case http2_event::kind::end:
      if (stream != nullptr) stream->end_request(session_.head());
      return;
    case http2_event::kind::closed:
      if (stream == nullptr) return;
      stream->close();
      return remove(*stream);
  }
}

void http2_connection::begin_request(const http2_event& event) {
  if (is_closing_) return;
  if (stream_count_ + *detached_ >= core_->options.http2.max_streams) {
    shard_.counts.refused_streams.add(1);
    return session_.reset(event.stream, http2_error::refused_stream);
  }
  auto& stream = *new http2_stream(*this, event.stream);
  streams_.push_back(stream);
  ++stream_count_;
  session_.set_owner(event.stream, &stream);
  if (event.what == http2_event::kind::refused) return stream.refuse(errc::fields_too_large);
  stream.begin(session_.head(), event.is_end);
}

void http2_connection::remove(http2_stream& stream) noexcept {
  stream.unlink();
  --stream_count_;
  delete &stream;
  if (!streams_.empty()) return;
  idle_since_ = current_time();
  const duration limit = core_->options.timeouts.idle;
  if (limit.count() != 0) note_deadline(gyre::detail::later(idle_since_, limit));
}

// --- The memory of bodies ---

bool http2_connection::is_oldest_receiving(const http2_stream& stream) noexcept {
  for (const http2_stream& each : streams_) {
    if (each.current_state() == http2_stream::state::receiving) return &each == &stream;
  }
  return false;
}

bool http2_connection::hold_body(const http2_stream& stream, std::size_t count) {
  const std::size_t max_held = core_->options.http2.body_memory;
  held_bodies_ += count;
  if (held_bodies_ > max_held) {
    http2_stream* newest = nullptr;
    for (http2_stream& each : streams_) {
      if (each.current_state() == http2_stream::state::receiving) newest = &each;
    }
    if (newest != nullptr && !is_oldest_receiving(*newest)) {
      shard_.counts.refused_streams.add(1);
      newest->reset(http2_error::refused_stream);
    }
  }
  return held_bodies_ <= max_held / 2 || is_oldest_receiving(stream);
}

void http2_connection::release_body(std::size_t count) noexcept {
  held_bodies_ -= count;
  must_grant_ = true;
  schedule_flush();
}

void http2_connection::grant_bodies() {
  if (!std::exchange(must_grant_, false)) return;
  const bool may_all = held_bodies_ <= core_->options.http2.body_memory / 2;
  for (http2_stream& each : streams_) {
    if (each.current_state() != http2_stream::state::receiving) continue;
    each.grant();
    if (!may_all) return;
  }
}

// --- Output ---

void http2_connection::schedule_flush() noexcept {
  if (is_in_turn_) return;
  if (is_flushing_) {
    must_flush_again_ = true;
    return;
  }
  if (is_flush_posted_ || is_closing_) return;
  try {
    is_flush_posted_ = shard_.loop().try_post([self = std::weak_ptr(self_)] {
      const auto locked = self.lock();
      if (locked == nullptr || *locked == nullptr) return;
      (*locked)->is_flush_posted_ = false;
      (*locked)->flush();
    });
  } catch (...) {
    is_flush_posted_ = false;  // there is no memory for a task
  }
  if (!is_flush_posted_) flush();
}

bool http2_connection::may_run() const noexcept {
  return waiting_output_ < core_->options.http2.response_memory;
}

void http2_connection::run_waiting() {
  if (!has_waiting_ || !may_run()) return;
  has_waiting_ = false;
  for (http2_stream& each : streams_) {
    if (each.current_state() != http2_stream::state::waiting) continue;
    if (!may_run()) {
      has_waiting_ = true;
      return;
    }
    each.run();
  }
}

void http2_connection::flush() noexcept {
  if (is_flushing_ || is_closing_) return;
  is_flushing_ = true;
  try {
    send_frames();
  } catch (...) {
    shard_.output.clear();
    is_closing_ = true;
    tcp_.abort();
  }
  is_flushing_ = false;
  end_if_over();
}

// Sends frames until there are none, until the connection has enough, or until other connections
// must have their turn.
void http2_connection::send_frames() {
  const std::size_t max_pending = core_->options.tcp.connections.high_water;
  std::size_t sent = 0;
  for (;;) {
    must_flush_again_ = false;
    grant_bodies();
    run_waiting();
    if (!tcp_.can_send() || tcp_.pending_output() >= max_pending) return;
    if (sent >= max_sent_in_a_row) break;
    if (shard_.output_owner != nullptr) shard_.output_owner->flush();
    io::buffer& output = shard_.output;
    const steady_time time = current_time();
    while (output.size() < max_buffered_output && session_.append_output(output, time)) {
    }
    const bool has_frames = !output.empty();
    sent += output.size();
    if (has_frames) tcp_.send(output.bytes());
    if (output.capacity() > 4 * max_buffered_output) {
      output = io::buffer({.prepend = 0});
    } else {
      output.clear();
    }
    handle_events();
    if (std::exchange(has_drained_, false)) {
      for (http2_stream& each : streams_) each.wake_writer();
    }
    if (!has_frames && !must_flush_again_ && !must_grant_) return note_blocked_streams();
  }
  is_flushing_ = false;
  schedule_flush();
}

// Called when no more frames can be sent although the connection has room: streams that have
// output then wait for the client's windows.
void http2_connection::note_blocked_streams() noexcept {
  for (http2_stream& each : streams_) {
    if (each.has_output()) {
      note_deadline(each.note_blocked(current_time()));
    } else {
      each.note_unblocked();
    }
  }
}

// --- The end ---

void http2_connection::on_peer_ended() {
  has_peer_ended_ = true;
  for (http2_stream& each : streams_) each.on_peer_ended();
  flush();
}

void http2_connection::begin_stop() noexcept {
  shard_.stopping.request_stop();
  try {
    session_.announce_end();
  } catch (...) {
    return tcp_.abort();
  }
  schedule_flush();
}

void http2_connection::drain() {
  is_draining_ = true;
  session_.end();
  flush();
}

void http2_connection::end_if_over() noexcept {
  if (is_closing_) return;
  if (session_.abuse() != http2_abuse::none && session_.is_over()) shard_.counts.floods.add(1);
  const bool is_done = (is_draining_ || has_peer_ended_) && streams_.empty();
  // Responses that wait for the client's windows will never be sent.
  const bool is_stuck =
      has_peer_ended_ && tcp_.pending_output() == 0 &&
      std::ranges::none_of(streams_, [](const http2_stream& each) { return each.has_exchange(); });
  if (is_done || is_stuck || session_.is_over()) close_tcp();
}

void http2_connection::close_tcp() noexcept {
  is_closing_ = true;
  deadline_ = steady_time::max();
  detach_all();
  if (has_peer_ended_) {
    tcp_.close_without_lingering();
  } else {
    tcp_.close_when_sent();
  }
  if (core_->is_draining()) {
    tcp_.close(core_->options.tcp.connections.close_timeout, std::chrono::nanoseconds::max());
  }
}

// Detaches the exchanges, whose handlers are requested to stop.
void http2_connection::detach_all() noexcept {
  for (http2_stream& each : streams_) each.close();
}

// --- Time limits ---

// A timer that expires early stays, and on_deadline() looks again, so that most requests start no
// timer.
void http2_connection::note_deadline(steady_time deadline) noexcept {
  if (deadline >= deadline_ || is_closing_) return;
  deadline_ = deadline;
  if (!linked() || deadline < timer_operation::deadline()) {
    shard_.loop().start_timer(*this, deadline);
  }
}

void http2_connection::on_deadline() {
  if (is_closing_ || !tcp_.is_open()) return;
  const steady_time time = shard_.loop().now();
  if (time < deadline_) {
    if (deadline_ != steady_time::max()) shard_.loop().start_timer(*this, deadline_);
    return;
  }
  deadline_ = steady_time::max();
  expire(time);
  flush();
}

void http2_connection::expire(steady_time time) {
  const server_timeouts& limits = core_->options.timeouts;
  if (limits.head.count() != 0 && head_begun_ != steady_time::max()) {
    const steady_time head_deadline = gyre::detail::later(head_begun_, limits.head);
    if (time >= head_deadline) {
      shard_.counts.timeouts.add(1);
      return session_.fail(http2_error::enhance_your_calm);
    }
    note_deadline(head_deadline);
  }
  if (limits.idle.count() != 0 && streams_.empty()) {
    const steady_time idle_deadline = gyre::detail::later(idle_since_, limits.idle);
    if (time >= idle_deadline) return session_.fail(http2_error::none);
    note_deadline(idle_deadline);
  }
  for (http2_stream& each : streams_) {
    if (time >= each.body_deadline()) {
      each.refuse(errc::timed_out);
    } else if (each.has_output() && time >= each.stall_deadline()) {
      shard_.counts.stalled_streams.add(1);
      each.reset(http2_error::cancel);
      continue;
    }
    note_deadline(std::min(each.body_deadline(), each.stall_deadline()));
  }
}

}  // namespace gyre::http::detail
