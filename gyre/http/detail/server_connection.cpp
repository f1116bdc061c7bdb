// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/server_connection.hpp>

#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/head_writer.hpp>
#include <gyre/http/detail/http2_connection.hpp>
#include <gyre/http/detail/max_copied.hpp>
#include <gyre/http/detail/read_file.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

// The part of HTTP/2's preface that a parser of HTTP/1 takes for a head.
constexpr std::string_view http2_preface_head = "PRI * HTTP/2.0\r\n\r\n";
// A file up to this size is read after the head, and both are sent by one call: for 1 to 8 KiB that
// takes 0.76 to 0.89 of the CPU time of send(2) and sendfile(2), for 16 KiB about as much.
constexpr std::uint64_t max_read_file = std::uint64_t{16} << 10;
// The time for which a stopping server waits for the FIN of an idle peer.
constexpr std::chrono::milliseconds drain_linger{250};

}  // namespace

server_connection::server_connection(net::tcp_connection& tcp, server_shard& shard,
                                     std::shared_ptr<server_core> core)
    : exchange_stream(tcp, shard),
      deadline_timer(
          [](timer_operation& timer) { static_cast<server_connection&>(timer).on_deadline(); }),
      core_(std::move(core)) {
  const duration limit = core_->options.timeouts.first_byte;
  if (limit.count() != 0) set_deadline(gyre::detail::later(shard_.loop().recent_time(), limit));
  // The stop may have begun while this loop had no connection, so that no begin_stop() has informed
  // the shard.
  if (core_->is_draining()) shard_.stopping.request_stop();
}

steady_time server_connection::current_time() const noexcept {
  return is_in_turn_ ? shard_.turn_begun : shard_.loop().now();
}

server_connection::~server_connection() {
  cancel(shard_.loop());
  if (shard_.output_owner == this) {
    shard_.output.clear();
    shard_.output_owner = nullptr;
  }
  if (current_exchange_ != nullptr) std::exchange(current_exchange_, nullptr)->detach();
  if (has_partial_head_) core_->end_work();
}

void server_connection::flush(std::span<const std::byte> body) {
  io::buffer& bytes = output();
  shard_.output_owner = nullptr;
  if (bytes.empty()) {
    tcp_.send(body);
  } else if (body.empty()) {
    tcp_.send(bytes.bytes());
  } else {
    tcp_.send({bytes.bytes(), body});
  }
  shard_.drop_output();
}

void server_connection::flush_output() noexcept {
  try {
    flush();
  } catch (...) {
    tcp_.abort();
  }
}

void server_connection::on_message(io::input& input) {
  is_in_turn_ = true;
  shard_.turn_begun = shard_.loop().recent_time();
  std::size_t request_count = 0;
  while (!input.empty() && state_ != state::closing && tcp_.can_send()) {
    if (state_ == state::head) {
      if (tcp_.reading_paused()) break;  // on_message() is called again at low water
      if (request_count == core_->options.limits.pipelined) {
        tcp_.pause_reading();
        tcp_.resume_reading();  // the rest is delivered in the loop's next turn
        break;
      }
      if (!read_head(input)) break;
      ++request_count;
    } else if (!read_body(input)) {
      break;
    }
    if (shard_.output_owner == this && shard_.output.size() >= server_shard::max_output) flush();
  }
  is_in_turn_ = false;
  if (shard_.output_owner == this) flush();
  if (state_ == state::closing) {
    if (successor_ != nullptr) return switch_to_successor(input);
    if (begins_http2_) [[unlikely]]
      return switch_to_http2(input);
    if (!input.empty()) lingers_ = true;
    input.consume_all();
    close_tcp();
  } else if (state_ == state::head && !input.empty()) {
    note_partial_head();
  }
}

void server_connection::note_partial_head() noexcept {
  if (!std::exchange(has_partial_head_, true)) core_->begin_work();
}

bool server_connection::read_head(io::input& input) {
  const auto size = scanner_.find_end(input.text(), core_->head_limits);
  if (!size) {
    refuse(size.error());
    return false;
  }
  if (*size == 0) {
    if (!std::exchange(has_head_begun_, true)) {
      const duration limit = core_->options.timeouts.head;
      clear_deadline();
      if (limit.count() != 0) set_deadline(shard_.loop().deadline_after(limit));
    }
    return false;
  }
  scanner_.reset();
  has_head_begun_ = false;
  body_clock_ = {};
  clear_deadline();
  current_exchange_ = &shard_.acquire();
  if (!std::exchange(has_partial_head_, false)) core_->begin_work();
  const std::span<const std::byte> head_bytes = input.take(*size);
  if (const errc error = current_exchange_->begin_request(*this, head_bytes); error != errc{}) {
    if (error == errc::unsupported_version && may_begin_http2(head_bytes)) {
      std::exchange(current_exchange_, nullptr)->detach();
      begins_http2_ = true;
      begin_closing();
      return false;
    }
    refuse(error);
    return false;
  }
  awaits_first_request_ = false;
  if (!current_exchange_->body().expects_more()) {
    run_handler();
    return true;
  }
  state_ = state::body;
  body_clock_.begin(shard_.turn_begun);
  if (current_exchange_->body().is_streamed()) {
    // The bytes after the head are taken first: if they complete the body, the connection can be
    // kept even after a response that does not read it.
    if (const errc error = current_exchange_->receive_body(input); error != errc{}) {
      refuse(error);
      return false;
    }
    if (current_exchange_->body().expects_more()) pause_body_clock();
    run_handler();
  } else if (input.empty()) {
    current_exchange_->send_continue();
    set_body_deadline();
  }
  return true;
}

bool server_connection::read_body(io::input& input) {
  if (current_exchange_ == nullptr) return false;
  if (current_exchange_->body().expects_more()) {
    if (const errc error = current_exchange_->receive_body(input); error != errc{}) {
      refuse(error);
      return false;
    }
    if (current_exchange_ == nullptr) return true;  // the handler has ended meanwhile
    if (!current_exchange_->body().expects_more()) {
      clear_deadline();
      if (state_ == state::body) run_handler();
      return true;
    }
    if (state_ == state::body) {
      set_body_deadline();
    } else if (!current_exchange_->body().arrival().has_begun() && !body_clock_.is_paused()) {
      pause_body_clock();
    }
    // Reading continues if the rest of an incomplete chunk line is needed.
    if (input.empty() || !current_exchange_->body().is_full()) return false;
  }
  clear_deadline();
  pause_input();
  return false;
}

// Whether the head is the preface of HTTP/2 and the server accepts it (RFC 9113, 3.3).
bool server_connection::may_begin_http2(std::span<const std::byte> head) const noexcept {
  const http2_options& options = core_->options.http2;
  return has_http2 && awaits_first_request_ && options.enabled && options.prior_knowledge &&
         tcp_.layer() == nullptr &&
         std::ranges::equal(head, std::as_bytes(std::span(http2_preface_head)));
}

void server_connection::switch_to_http2(io::input& input) {
  if constexpr (has_http2) {
    auto& protocol = *tcp_.context<connection_protocol_pointer>();
    auto successor = make_http2_connection(tcp_, shard_, core_);
    // Keeps this object alive until the end of the function.
    const auto self = std::exchange(protocol, std::move(successor));
    io::input taken(http2_preface_head);
    protocol->on_message(taken);
    if (!input.empty()) protocol->on_message(input);
  }
}

// Lets a protocol take the connection over in its next turn, because callers may still use this
// object.
void server_connection::hand_over(connection_protocol_pointer successor) noexcept {
  current_exchange_ = nullptr;
  successor_ = std::move(successor);
  begin_closing();
  if (!is_in_turn_) set_deadline(shard_.loop().recent_time());
}

void server_connection::switch_to_successor(io::input& input) {
  auto& protocol = *tcp_.context<connection_protocol_pointer>();
  net::tcp_connection& tcp = tcp_;
  const bool must_resume = waits_for_turn_;
  const bool has_ended = has_peer_ended_;
  auto successor = std::move(successor_);
  protocol = std::move(successor);  // destroys this object
  if (must_resume) tcp.resume_reading();
  protocol->on_message(input);
  if (has_ended) protocol->on_peer_ended();
}

// Pauses reading, and leaves received bytes in the input of the connection, so that the peer must
// wait.
void server_connection::pause_input() noexcept {
  waits_for_turn_ = true;
  tcp_.pause_reading();
}

void server_connection::resume_input() noexcept {
  if (!std::exchange(waits_for_turn_, false)) return;
  tcp_.resume_reading();
}

void server_connection::on_body_taken(std::size_t /*count*/) noexcept { resume_input(); }

void server_connection::want_body() {
  // These bytes may have come before the upgrade.
  if (current_exchange_->is_upgraded()) return resume_input();
  if (body_clock_.is_paused()) body_clock_.resume(shard_.loop().now());
  set_body_deadline();
}

void server_connection::pause_body_clock() noexcept {
  body_clock_.pause(shard_.loop().now());
  clear_deadline();
}

void server_connection::run_handler() {
  state_ = state::handler;
  current_exchange_->run_handler();
}

void server_connection::on_exchange_ended(keep_alive future) noexcept {
  current_exchange_ = nullptr;
  // Since the head was sent, the server may have begun to stop, or the peer may have ended its
  // side.
  if (future == keep_alive::kept && must_close()) {
    future = has_peer_ended_ ? keep_alive::close : keep_alive::linger;
  }
  if (future != keep_alive::kept) {
    lingers_ = future == keep_alive::linger;
    begin_closing();
  } else {
    state_ = state::head;
    const duration limit = core_->options.timeouts.idle;
    clear_deadline();
    if (limit.count() != 0) {
      set_deadline(gyre::detail::later(current_time(), limit));
    }
  }
  if (is_in_turn_) return;
  try {
    if (shard_.output_owner == this) flush();
  } catch (...) {
    return tcp_.abort();
  }
  if (state_ == state::closing) return close_tcp();
  if (waits_for_turn_) note_partial_head();
  resume_input();
}

// --- The response ---

void server_connection::send_continue() {
  output().append(message_writer::continue_response);
  if (!is_in_turn_) flush();
}

[[gnu::always_inline]] inline void server_connection::write_head(exchange& sender,
                                                                 const response& result) {
  const field id = sender.id_field(result);
  head_writer head(output(), result.fields().text().size() + id.name.size() + id.value.size() + 4);
  head.put_status_line(result.status());
  if (!id.name.empty()) [[unlikely]] {
    head.put(id.name);
    head.put(": ");
    head.put(id.value);
    head.put("\r\n");
  }
  const handler_fields own_fields = head.put_fields(result.fields());
  if (!own_fields.has_date) head.put(shard_.date_line(current_time()));
  const message_writer& body = sender.begin_body(result, own_fields.content_length);
  head.put_framing(body);
  // The rest of a body that was not read is discarded, so the connection cannot be kept.
  if (own_fields.asks_for_close || sender.body().expects_more() || must_close() ||
      body.ends_with_connection()) {
    sender.close_connection();
  }
  std::string_view option;
  if (sender.future() != keep_alive::kept && !sender.is_upgraded()) {
    option = "close";
  } else if (sender.request().minor_version() == 0) {
    option = "keep-alive";
  }
  head.put_connection(result.fields(), own_fields, option);
  head.put("\r\n");
  head.finish();
}

void server_connection::send(exchange& sender, response& result) {
  write_head(sender, result);
  if (!sender.take_whole_body(result)) return;
  const std::string_view body = result.body();
  if (body.size() > max_copied) {
    flush(std::as_bytes(std::span(body)));
  } else {
    output().append(body);
  }
}

void server_connection::send_file(body_source& source) {
  if (source.count <= max_read_file) {
    io::buffer& bytes = output();
    const auto size = static_cast<std::size_t>(source.count);
    const std::error_code error = read_file(source.file.get(), source.offset, bytes.prepare(size));
    if (!error) return bytes.commit(size);
    flush();
    return tcp_.abort(error);
  }
  flush();
  tcp_.send_file(std::move(source.file), source.offset, source.count);
}

write_outcome server_connection::write(message_writer& framing, std::span<const std::byte> bytes) {
  if (bytes.size() <= max_copied && (is_in_turn_ || shard_.schedule_flush())) {
    // Short writes are sent together, as the WebSocket messages that reply to those of one receive.
    io::buffer& buffer = output();
    if (framing.is_chunked()) buffer.append(framing.format_chunk_header(bytes.size()));
    buffer.append(bytes);
    if (framing.is_chunked()) buffer.append("\r\n");
    if (buffer.size() >= server_shard::max_output) flush();
  } else if (framing.is_chunked()) {
    flush();
    const std::string_view line = framing.format_chunk_header(bytes.size());
    tcp_.send({std::as_bytes(std::span(line)), bytes, std::as_bytes(std::span("\r\n", 2))});
  } else {
    flush(bytes);
  }
  const bool is_full = tcp_.pending_output() >= core_->options.tcp.connections.high_water;
  return is_full ? write_outcome::taken_and_full : write_outcome::taken;
}

void server_connection::end_body(const message_writer& framing, const http::fields& trailers) {
  framing.append_end(output(), trailers.text());
}

// --- The end ---

// Sends the output, such as a Close frame after a failed function, and resets the connection.
void server_connection::abort() noexcept {
  try {
    if (shard_.output_owner == this) flush();
  } catch (...) {
    shard_.output.clear();  // without memory the output is lost
  }
  tcp_.abort();
}

void server_connection::begin_closing() noexcept {
  state_ = state::closing;
  clear_deadline();
  if (std::exchange(has_partial_head_, false)) core_->end_work();
}

void server_connection::close_tcp() noexcept {
  // With TLS, a peer that sends no more requests may still send a close_notify, which would make
  // the kernel reset the closed connection.
  if (lingers_ || (tcp_.layer() != nullptr && !has_peer_ended_)) {
    tcp_.close_when_sent();
  } else {
    tcp_.close_without_lingering();
  }
  // While the server stops, a peer that takes nothing is closed after close_timeout. The time limit
  // of the stop bounds the total.
  if (core_->is_draining()) {
    tcp_.close(core_->options.tcp.connections.close_timeout, std::chrono::nanoseconds::max());
  }
}

void server_connection::refuse(errc error) {
  shard_.counts.malformed.add(1);
  if (error == errc::timed_out) shard_.counts.timeouts.add(1);
  if (state_ == state::handler) {
    // The handler gets this error when it reads the body.
    current_exchange_->fail_body(error);
    return;
  }
  send_error(static_cast<status>(status_code_of(error)), make_error_code(error).message());
}

void server_connection::send_error(status code, std::string_view text) {
  io::buffer& bytes = output();
  shard_.counts.by_class[std::min(to_number(code) / 100, 5U)].add(1);
  head_writer head(bytes, text.size() + 1);
  head.put_status_line(code);
  head.put(shard_.date_line(current_time()));
  head.put("Content-Type: text/plain; charset=utf-8\r\nContent-Length: ");
  head.put_number(text.size() + 1);
  head.put("\r\nConnection: close\r\n\r\n");
  head.put(text);
  head.put("\n");
  head.finish();
  if (current_exchange_ != nullptr) std::exchange(current_exchange_, nullptr)->detach();
  begin_closing();
  if (is_in_turn_) return;
  flush();
  close_tcp();
}

void server_connection::on_peer_ended() {
  has_peer_ended_ = true;
  if (current_exchange_ != nullptr) current_exchange_->on_peer_ended();
  if (successor_ != nullptr) return;
  if (current_exchange_ != nullptr && state_ == state::handler) return;
  begin_closing();
  close_tcp();
}

void server_connection::on_low_water() {
  if (current_exchange_ != nullptr) current_exchange_->on_low_water();
}

void server_connection::begin_stop() noexcept { shard_.stopping.request_stop(); }

void server_connection::drain() {
  if (successor_ != nullptr) return;
  if (current_exchange_ != nullptr || has_partial_head_) return;
  if (tcp_.pending_output() == 0) {
    tcp_.close(drain_linger, drain_linger);
  } else {
    close_tcp();
  }
}

// --- Time limits ---

void server_connection::set_body_deadline() noexcept {
  const auto deadline =
      body_clock_.deadline(core_->options.timeouts, current_exchange_->body().received());
  if (deadline) set_deadline(*deadline);
}

void server_connection::on_deadline() {
  if (!tcp_.is_open() || !has_expired(shard_.loop())) return;
  if (state_ == state::head && !has_head_begun_ && tcp_.pending_output() != 0) {
    // The tcp_connection limits the time of the last response, which is still being sent.
    return set_deadline(shard_.loop().deadline_after(core_->options.timeouts.idle));
  }
  clear_deadline();
  if (successor_ != nullptr) {
    io::input nothing;
    return switch_to_successor(nothing);
  }
  if (state_ == state::head && !has_head_begun_) {
    if (awaits_first_request_) shard_.counts.timeouts.add(1);
    tcp_.close();
  } else if (state_ != state::closing) {
    refuse(errc::timed_out);
  }
}

}  // namespace gyre::http::detail
