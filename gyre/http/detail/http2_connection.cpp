// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_connection.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/turn_budget.hpp>
#include <gyre/http/error.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace gyre::http::detail {
namespace {

// The limits of a client's work in a row, in bytes of http2_session::take_work(): the first one,
// the increase after each completed response, and the maximum. A new connection thus causes little
// work in a turn, while a used one gets its requests handled together.
constexpr std::size_t first_work_in_a_row = std::size_t{16} << 10;
constexpr std::size_t work_per_response = std::size_t{8} << 10;
constexpr std::size_t max_work_in_a_row = std::size_t{1} << 20;
// A client is new until its limit exceeds this. All new clients of a loop share one limit.
constexpr std::size_t work_of_known_client = std::size_t{64} << 10;
// After this many sent bytes, other connections have their turn.
constexpr std::size_t max_sent_in_a_row = std::size_t{256} << 10;
// The output of a connection that is buffered while the server is short of memory.
constexpr std::size_t max_buffered_under_pressure = std::size_t{16} << 10;
// While the server is short of memory, a connection's limits are divided by this.
constexpr std::size_t parts_under_pressure = 8;
// The memory of a request without its head and its bodies.
constexpr std::size_t memory_of_request = sizeof(http2_stream) + exchange::object_size();
// Below this size, the tcp_connection does not count the memory of the connection.
constexpr std::size_t min_counted_memory = std::size_t{32} << 10;
// The time after which bodies that wait for the server's memory are looked at again.
constexpr std::chrono::milliseconds pause_of_bodies{100};

}  // namespace

connection_protocol_pointer make_http2_connection(net::tcp_connection& tcp, server_shard& shard,
                                                  std::shared_ptr<server_core> core) {
  return connection_protocol_pointer(new http2_connection(tcp, shard, std::move(core)));
}

http2_connection::http2_connection(net::tcp_connection& tcp, server_shard& shard,
                                   std::shared_ptr<server_core> core)
    : deadline_timer(
          [](timer_operation& timer) { static_cast<http2_connection&>(timer).on_deadline(); }),
      tcp_(tcp),
      shard_(shard),
      core_(std::move(core)),
      detached_handlers_(std::make_shared<detached_handlers>()),
      life_(std::make_shared<const char>()),
      session_(core_->options.http2, core_->head_limits),
      max_work_(first_work_in_a_row),
      next_turn_(*this),
      idle_memory_(session_.memory()),
      idle_since_(shard.loop().recent_time()) {
  shard_.counts.http2_connections.add(1);
  // relaxed: the count guards no data.
  core_->idle_http2_memory.fetch_add(idle_memory_, std::memory_order_relaxed);
  const duration limit = core_->options.timeouts.idle;
  if (limit.count() != 0) note_deadline(gyre::detail::later(idle_since_, limit));
  // The stop may have begun while this loop had no connection: see server_connection.
  if (core_->is_draining()) shard_.stopping.request_stop();
  schedule_flush();  // the server's SETTINGS are sent at once: they need not wait for the client
}

http2_connection::~http2_connection() {
  is_closing_ = true;
  cancel(shard_.loop());
  if (next_turn_.linked()) shard_.loop().cancel_timer(next_turn_);
  detach_all();
  while (!streams_.empty()) remove_stream(streams_.front());
  // relaxed: the count guards no data.
  core_->http2_memory.fetch_sub(counted_memory_, std::memory_order_relaxed);
  core_->idle_http2_memory.fetch_sub(idle_memory_, std::memory_order_relaxed);
}

steady_time http2_connection::current_time() const noexcept {
  return is_in_turn_ ? shard_.turn_begun : shard_.loop().now();
}

std::shared_ptr<server_core> http2_connection::keep_slot(std::size_t bytes) const {
  ++detached_handlers_->count;
  detached_handlers_->bytes += bytes;
  return {core_.get(), [core = core_, all = detached_handlers_, bytes](server_core*) {
            --all->count;
            all->bytes -= bytes;
          }};
}

// --- Input ---

void http2_connection::on_message(io::input& input) {
  is_in_turn_ = true;
  shard_.turn_begun = shard_.loop().recent_time();
  const std::size_t old_request_count = shard_.counts.requests.get();
  const bool was_new = is_new();
  const bool had_share = std::exchange(has_share_, false);
  const std::size_t max_work = allowed_work(had_share);
  std::size_t work = 0;
  while (!input.empty() && !is_closing_) {
    // A client that does not read the output it causes must wait, so that little is queued.
    if (tcp_.pending_output() >= max_pending()) {
      if (!std::exchange(has_paused_, true)) tcp_.pause_reading();
      break;
    }
    if (work >= max_work ||
        shard_.counts.requests.get() - old_request_count >= core_->options.limits.pipelined) {
      yield_turn();
      break;
    }
    const bool reads_on = session_.receive(input, shard_.turn_begun, max_work - work);
    handle_events();
    work += session_.take_work();
    if (!reads_on) break;
  }
  // The client's share was charged when it began, so only the excess is charged here.
  if (had_share) work -= std::min(work, turn_budget::share);
  if (was_new) shard_.budget->spend_work_of_new_clients(work);
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

bool http2_connection::is_new() const noexcept { return max_work_ < work_of_known_client; }

// Returns the work after which other connections have their turn.
std::size_t http2_connection::allowed_work(bool has_share) noexcept {
  // The first bytes may have been read by HTTP/1.1, so they cannot wait.
  if (!std::exchange(has_begun_, true) || !is_new()) return max_work_;
  return std::min(max_work_, has_share ? turn_budget::share : shard_.budget->work_of_new_clients());
}

// Lets the loop serve its other descriptors before the rest of the input. A task would not do: a
// batch of tasks also runs those that its tasks post.
void http2_connection::yield_turn() {
  tcp_.pause_reading();
  if (is_new()) {
    shard_.budget->await_share(*this);
  } else if (!next_turn_.linked()) {
    shard_.loop().start_timer(next_turn_, shard_.loop().deadline_after(duration::zero()));
  }
}

void http2_connection::begin_share() noexcept {
  has_share_ = true;
  tcp_.resume_reading();
}

void http2_connection::handle_events() {
  while (const auto event = session_.next_event()) handle_event(*event);
}

void http2_connection::handle_event(const http2_event& event) {
  auto* const stream = static_cast<http2_stream*>(event.owner);
  switch (event.what) {
    case http2_event::kind::request:
    case http2_event::kind::refused: return begin_request(event);
    case http2_event::kind::data:
      if (stream == nullptr) return session_.credit_connection(event.bytes.size());
      stream->receive(event.bytes);
      if (session_.connection_window() == 0) {
        is_window_used_up_ = true;
        update_body_clocks();
      }
      return;
    case http2_event::kind::end:
      if (stream != nullptr) stream->end_request(session_.head());
      return;
    case http2_event::kind::closed:
      if (stream == nullptr) return;
      max_work_ = event.error == http2_error::none
                      ? std::min(max_work_ + work_per_response, max_work_in_a_row)
                      : std::max(max_work_ / 2, first_work_in_a_row);
      stream->close();
      return remove_stream(*stream);
    case http2_event::kind::response:
    case http2_event::kind::interim: return;  // only a client gets interim responses
    case http2_event::kind::sent:
      if (stream != nullptr) stream->note_head_sent();
      return;
  }
}

void http2_connection::begin_request(const http2_event& event) {
  if (is_closing_) return;
  const bool has_room =
      has_room_for_head(session_.head().cost()) && (event.is_end || has_room_for_body());
  if (request_count() >= max_requests() || !has_room) {
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

void http2_connection::remove_stream(http2_stream& stream) noexcept {
  stream.unlink();
  --stream_count_;
  delete &stream;
  if (!streams_.empty()) return;
  idle_since_ = current_time();
  const duration limit = core_->options.timeouts.idle;
  if (limit.count() != 0) note_deadline(gyre::detail::later(idle_since_, limit));
}

// --- Memory ---

std::size_t http2_connection::memory() const noexcept {
  return session_.memory() + request_count() * memory_of_request + held_heads_ + held_bodies_ +
         input_ + waiting_output_ + detached_handlers_->bytes;
}

// Counts the connection's memory for the server; the tcp_connection counts only a part of it.
// Called after sending, so that only what has to wait is counted.
void http2_connection::update_memory() {
  const std::size_t bytes = memory();
  const std::size_t pending = tcp_.pending_output();
  const std::size_t counted_bytes = bytes + pending - std::min(bytes + pending, idle_memory_);
  if (counted_bytes != counted_memory_) {
    // relaxed: the count guards no data.
    core_->http2_memory.fetch_add(counted_bytes - std::exchange(counted_memory_, counted_bytes),
                                  std::memory_order_relaxed);
  }
  if (pending != 0) tcp_.notify_at_low_water();  // the notification counts the memory again
  const bool is_much = bytes > min_counted_memory;
  if (!is_much && !is_counted_by_tcp_) return;
  is_counted_by_tcp_ = is_much;
  if (!tcp_.count_memory(is_much ? bytes : 0)) is_closing_ = true;
}

std::size_t http2_connection::present_limit(std::size_t limit) const noexcept {
  return core_->is_short_of_http2_memory() ? limit / parts_under_pressure : limit;
}

// Returns how many bytes of output may wait before no more frames are made. The number is above
// `low_water`, at which the connection calls.
std::size_t http2_connection::max_pending() const noexcept {
  if (core_->is_short_of_http2_memory()) return max_buffered_under_pressure;
  const net::connection_options& options = core_->options.tcp.connections;
  const std::size_t low_water = options.low_water.value_or(options.high_water / 4);
  return std::min(options.high_water, low_water + server_shard::max_output);
}

bool http2_connection::has_room_for_head(std::size_t cost) const noexcept {
  const std::size_t held_bytes = held_heads_ + detached_handlers_->bytes;
  return held_bytes == 0 || held_bytes + cost <= present_limit(core_->options.http2.head_memory);
}

// Whether a request with a body may come, whose beginning the client may send at once.
bool http2_connection::has_room_for_body() const noexcept {
  const std::size_t max = core_->options.http2.body_memory / parts_under_pressure;
  return reserved_bodies_ <= max || !core_->is_short_of_http2_memory();
}

// Whether the server has no memory for more of the bodies. They are then granted later.
bool http2_connection::holds_back_bodies() noexcept {
  if (!core_->has_no_http2_memory()) return false;
  grants_later_ = true;
  note_deadline(gyre::detail::later(current_time(), pause_of_bodies));
  return true;
}

bool http2_connection::is_oldest_receiving(const http2_stream& stream) noexcept {
  for (const http2_stream& candidate : streams_) {
    if (candidate.current_state() == http2_stream::state::receiving) return &candidate == &stream;
  }
  return false;
}

void http2_connection::hold_body(std::size_t count) {
  held_bodies_ += count;
  // The second condition covers a client that has not acknowledged the server's SETTINGS: its
  // windows are larger than the reserved ones.
  if (held_bodies_ / 3 <= core_->options.http2.body_memory || held_bodies_ <= reserved_bodies_) {
    return;
  }
  http2_stream* newest_stream = nullptr;
  for (http2_stream& stream : streams_) {
    if (stream.current_state() == http2_stream::state::receiving) newest_stream = &stream;
  }
  if (newest_stream == nullptr || is_oldest_receiving(*newest_stream)) return;
  shard_.counts.refused_streams.add(1);
  newest_stream->reset(http2_error::refused_stream);
}

bool http2_connection::try_reserve_body(const http2_stream& stream, std::size_t count) noexcept {
  if (holds_back_bodies()) return false;
  const std::size_t limit = core_->options.http2.body_memory;
  const std::size_t max_reserved = core_->is_short_of_http2_memory() ? limit / 4 : limit;
  if (reserved_bodies_ + count > max_reserved && !is_oldest_receiving(stream)) return false;
  reserved_bodies_ += count;
  return true;
}

void http2_connection::unreserve_body(std::size_t count) noexcept {
  reserved_bodies_ -= count;
  must_grant_ = true;
  schedule_flush();
}

void http2_connection::grant_bodies() {
  const bool has_acknowledged = session_.take_acknowledgement();
  if (!std::exchange(must_grant_, false) && !has_acknowledged) return;
  for (http2_stream& stream : streams_) stream.enlarge_window();
}

void http2_connection::update_body_clocks() noexcept {
  for (http2_stream& stream : streams_) stream.update_body_clock();
}

// --- Output ---

void http2_connection::schedule_flush() noexcept {
  if (is_in_turn_) return;
  if (is_flushing_) {
    must_flush_again_ = true;
    return;
  }
  if (is_closing_) return;
  if (!posted_flush_.post(shard_.loop(), std::weak_ptr(life_), [this] { flush(); })) flush();
}

void http2_connection::run_waiting() {
  if (!has_waiting_ || !may_run()) return;
  has_waiting_ = false;
  for (http2_stream& stream : streams_) {
    if (stream.current_state() != http2_stream::state::waiting) continue;
    if (!may_run()) {
      has_waiting_ = true;
      return;
    }
    stream.run();
  }
}

void http2_connection::flush() noexcept {
  if (is_flushing_ || is_closing_) return;
  is_flushing_ = true;
  try {
    send_frames();
    if (!is_closing_) update_memory();
  } catch (...) {
    shard_.output.clear();
    is_closing_ = true;
    tcp_.abort();
  }
  is_flushing_ = false;
  end_if_over();
}

void http2_connection::wake_writers() {
  if (!std::exchange(has_waiting_writer_, false)) return;
  for (http2_stream& stream : streams_) {
    if (!stream.wake_writer()) has_waiting_writer_ = true;
  }
}

// Sends frames until none is left, the connection has no room, or other connections must have their
// turn.
void http2_connection::send_frames() {
  const std::size_t most_pending = max_pending();
  const std::size_t most_buffered = std::min(most_pending, server_shard::max_output);
  std::size_t sent_bytes = 0;
  for (;;) {
    must_flush_again_ = false;
    grant_bodies();
    if (is_window_used_up_ && session_.connection_window() != 0) {
      is_window_used_up_ = false;
      update_body_clocks();
    }
    run_waiting();
    if (!tcp_.can_send()) return;
    if (tcp_.pending_output() >= most_pending) {
      return note_unblocked_streams();  // update_memory() has asked for a call at low water
    }
    if (std::exchange(has_paused_, false) && !waits_for_turn()) tcp_.resume_reading();
    if (sent_bytes >= max_sent_in_a_row) break;
    if (shard_.output_owner != nullptr) shard_.output_owner->flush_output();
    io::buffer& output = shard_.output;
    const steady_time time = current_time();
    while (output.size() < most_buffered && session_.append_output(output, time)) {
    }
    const bool has_frames = !output.empty();
    sent_bytes += output.size();
    if (has_frames) tcp_.send(output.bytes());
    shard_.drop_output();
    handle_events();
    wake_writers();
    if (!has_frames && !must_flush_again_ && !must_grant_) return note_blocked_streams();
  }
  is_flushing_ = false;
  schedule_flush();
}

// Called when no frame can be sent although the connection has room: the streams with output then
// wait for the client's windows.
void http2_connection::note_blocked_streams() noexcept {
  for (http2_stream& stream : streams_) {
    if (stream.has_output()) {
      note_deadline(stream.note_blocked(current_time()));
    } else {
      stream.note_unblocked();
    }
  }
}

// Called when the connection has no room: streams with open windows wait for the room, which has a
// time limit of its own.
void http2_connection::note_unblocked_streams() noexcept {
  for (http2_stream& stream : streams_) {
    if (stream.stall_deadline() != steady_time::max() && !stream.is_blocked())
      stream.note_unblocked();
  }
}

// --- Closing ---

void http2_connection::on_peer_ended() {
  has_peer_ended_ = true;
  for (http2_stream& stream : streams_) stream.on_peer_ended();
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
  // A client that has ended its side opens no window, so responses that wait for one cannot be
  // sent.
  const bool is_stuck = has_peer_ended_ && tcp_.pending_output() == 0 &&
                        std::ranges::none_of(streams_, [](const http2_stream& stream) {
                          return stream.has_exchange();
                        });
  if (is_done || is_stuck || session_.is_over()) close_tcp();
}

void http2_connection::close_tcp() noexcept {
  is_closing_ = true;
  clear_deadline();
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

// Detaches the exchanges, and requests their handlers to stop.
void http2_connection::detach_all() noexcept {
  for (http2_stream& stream : streams_) stream.close();
}

// --- Time limits ---

void http2_connection::note_deadline(steady_time deadline) noexcept {
  if (!is_closing_) bring_forward(shard_.loop(), deadline);
}

void http2_connection::on_deadline() {
  if (is_closing_ || !tcp_.is_open() || !has_expired(shard_.loop())) return;
  clear_deadline();
  apply_time_limits(shard_.loop().now());
  flush();
}

void http2_connection::apply_time_limits(steady_time time) {
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
  if (std::exchange(grants_later_, false)) must_grant_ = true;
  for (http2_stream& stream : streams_) {
    if (time >= stream.body_deadline()) {
      stream.refuse(errc::timed_out);
    } else if (stream.has_stalled(time)) {
      shard_.counts.stalled_streams.add(1);
      stream.reset(http2_error::cancel);
      continue;
    }
    note_deadline(std::min(stream.body_deadline(), stream.stall_deadline()));
  }
}

}  // namespace gyre::http::detail
