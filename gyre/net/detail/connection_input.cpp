// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connection_input.hpp>

#include <gyre/io/backend.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/from_loop.hpp>
#include <gyre/net/detail/message_with_fds.hpp>

#include <sys/uio.h>

#include <array>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

namespace gyre::net::detail {
namespace {

using io::detail::scratch_buffer;

constexpr std::size_t received_at_once = std::size_t{16} << 10;

}  // namespace

void connection_input::start_receiving() noexcept {
  connection_io& self = whole_of(*this);
  if (!self.is_open() || has_peer_ended_ || self.reading()) return;
  if (reading_paused() && !self.awaits_peer()) return;
  connection_backlog* const backlog = backlog_of(self);
  if (backlog != nullptr && backlog->descriptors != nullptr) {
    if (self.group().io().start(backlog->descriptors->readable)) self.schedule(due_call::readable);
  } else {
    // A receive that repeats does not complete at once.
    static_cast<void>(self.group().io().start_receiving(self, self.group().receiving()));
  }
}

void connection_input::on_received(io::handle& source, io::result result) {
  auto& self = static_cast<connection_io&>(source);
  from_loop(self, [&self, result] { self.on_receive_result(result); });
}

void connection_input::on_receive_result(io::result result) {
  if (!result) return on_receiving_failed(result.error());
  if (result.count() == 0) return on_peer_end();
  // `data` returns the memory after the message was handled, so that the next message uses the same
  // cache lines.
  const io::received data = std::move(whole_of(*this).group().receive_memory().arrived());
  receive(data.bytes());
}

void connection_input::on_receiving_failed(std::error_code reason) noexcept {
  connection_io& self = whole_of(*this);
  self.end(self.has_failed() ? self.failure() : reason, connection_end::in_order);
}

void connection_input::receive(std::span<const std::byte> bytes) {
  connection_io& self = whole_of(*this);
  self.count_received(bytes.size());
  self.group().count_received(bytes.size());
  if (self.has_layer()) return receive_layered(bytes);
  deliver(bytes);
}

void connection_input::deliver_early(std::span<const std::byte> bytes) {
  whole_of(*this).count_received(bytes.size());
  whole_of(*this).group().count_received(bytes.size());
  deliver(bytes);
}

// --- Through a layer ---

void connection_input::receive_layered(std::span<const std::byte> bytes) {
  connection_io& self = whole_of(*this);
  const bool is_awaited = self.awaits_peer();
  if (has_peer_ended_ || (!self.delivers() && !is_awaited)) return;
  layer& protocol = layer_of(self).protocol();
  scratch_buffer plain_bytes;
  io::buffer replies;
  protocol.send_to(replies);
  protocol.feed(bytes);
  const bool has_failed = protocol.read_all(*plain_bytes) == layer::status::failed;
  protocol.keep_unread();
  if (!protocol.unread().empty()) {  // the protocol's unread bytes count as unconsumed input
    static_cast<void>(self.make_backlog());
    if (protocol.unread().size() > self.group().options().input_limit) {
      return self.abort(io::errc::input_limit);
    }
    if (!self.update_held_bytes()) return self.abort(io::errc::memory_limit);
  }
  const std::error_code failure = has_failed ? protocol.error() : std::error_code();
  if (!replies.empty()) self.send_replies(std::move(replies));
  if (is_awaited && !failure && !self.awaits_peer()) self.send_awaiting();
  if (!plain_bytes->empty()) deliver(plain_bytes->bytes());
  if (!self.is_open()) return;
  // The layer's failure also explains an earlier failure of sending.
  if (failure) return self.end(failure, connection_end::in_order);
  if (protocol.has_ended() && self.delivers() && !has_peer_ended_) {
    if (self.reading()) self.group().io().stop_receiving(self);
    // The peer's end is reported after bytes that wait for a turn of the loop, or for the program.
    if (!reading_paused() && !self.is_due(due_call::message)) on_peer_end();
  }
}

// --- To the program ---

void connection_input::deliver(std::span<const std::byte> bytes) {
  connection_io& self = whole_of(*this);
  auto& message = self.group().handlers().message;
  if (!self.delivers() || !message) return;
  // A `connected` handler that has paused reading gets the bytes after it resumes.
  if (reading_paused()) return keep_rest(bytes);
  self.count_message();
  const connection_backlog* const backlog = backlog_of(self);
  if (backlog != nullptr && !backlog->rest.empty()) return deliver_after_rest(bytes);
  io::input input(bytes);
  message(face_of(self), input);
  if (!input.empty() && self.is_open()) keep_rest(input.bytes());
}

void connection_input::deliver_after_rest(std::span<const std::byte> bytes) {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  io::buffer& rest = backlog.rest;
  rest.append(bytes);
  const std::size_t old_size = rest.size();
  self.group().handlers().message(face_of(self), rest);
  if (rest.size() < old_size) ++backlog.consumptions;
  if (rest.empty()) {
    rest = io::buffer();
    self.update_held_bytes();
  } else if (self.is_open()) {
    keep_rest({});
  }
}

void connection_input::keep_rest(std::span<const std::byte> unconsumed_bytes) {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = self.make_backlog();
  io::buffer& rest = backlog.rest;
  rest.append(unconsumed_bytes);
  const connection_options& limits = self.group().options();
  // A paused connection may exceed the limit: its bytes came with the handshake, and no others
  // come.
  if (rest.size() > limits.input_limit && !reading_paused()) {
    return self.abort(io::errc::input_limit);
  }
  if (!self.update_held_bytes()) return self.abort(io::errc::memory_limit);
  if (backlog.message_timer.linked() || limits.message_timeout.count() == 0) return;
  backlog.message_timer.watch(limits.message_timeout, backlog.consumptions);
  self.start_timer(backlog.message_timer);
}

void connection_input::on_message_timer_expired() {
  connection_io& self = whole_of(*this);
  connection_backlog& backlog = *backlog_of(self);
  if (!self.delivers() || backlog.rest.empty()) return;
  if (reading_paused()) {
    backlog.message_timer.watch(self.group().options().message_timeout, backlog.consumptions);
  } else if (backlog.message_timer.stalled(backlog.consumptions)) {
    return self.end(io::errc::message_timeout, connection_end::in_order);
  }
  self.start_timer(backlog.message_timer);
}

// Receiving starts only after the unconsumed input was delivered, so that new bytes cannot overtake
// it.
void connection_input::deliver_rest() {
  connection_io& self = whole_of(*this);
  if (reading_paused()) return;
  const connection_backlog* const backlog = backlog_of(self);
  if (self.delivers() && backlog != nullptr && !backlog->rest.empty()) {
    self.count_message();
    self.group().count_received(0);
    deliver_after_rest({});
  }
  const bool has_ended =
      self.has_layer() && self.delivers() && layer_of(self).protocol().has_ended();
  if (!has_ended) return start_receiving();
  if (!has_peer_ended_ && !reading_paused() && !self.is_due(due_call::message)) on_peer_end();
}

void connection_input::on_peer_end() {
  connection_io& self = whole_of(*this);
  has_peer_ended_ = true;
  if (self.has_failed()) return self.end(self.failure(), connection_end::in_order);
  if (self.has_layer() && self.phase() == connection_phase::open) {
    const bool is_early =
        self.awaits_peer() || static_cast<bool>(layer_of(self).protocol().end_of_bytes());
    if (is_early) return self.end(layer_of(self).cut_off(), connection_end::in_order);
  }
  switch (self.phase()) {
    case connection_phase::open:
      if (auto& handler = self.group().handlers().peer_ended) {
        handler(face_of(self));
        if (self.fin_is_sent()) self.close();
      } else {
        self.close();
      }
      return;
    case connection_phase::lingering: return self.end({}, connection_end::in_order);
    case connection_phase::flushing:
      if (self.awaits_peer() && layer_of(self).pending() == 0) {
        self.end(layer_of(self).cut_off(), connection_end::in_order);
      }
      return;
    case connection_phase::failed:
    case connection_phase::ended: return;
  }
}

// --- Pauses ---

void connection_input::pause(pauser reason) noexcept {
  connection_io& self = whole_of(*this);
  if (!self.delivers()) return;
  if (std::exchange(pausers_, pausers_ | reason) != pausers()) return;
  if (self.reading() && !self.awaits_peer()) self.group().io().stop_receiving(self);
}

void connection_input::resume(pausers reasons) noexcept {
  if (!reading_paused()) return;
  pausers_.erase(reasons);
  if (reading_paused()) return;
  if (whole_of(*this).delivers()) {
    whole_of(*this).schedule(due_call::message);  // a message callback may call resume()
  } else {
    start_receiving();
  }
}

// --- Another owner ---

void connection_input::take_arrivals(std::span<const std::byte> unconsumed_bytes,
                                     io::buffer& received_bytes) {
  connection_io& self = whole_of(*this);
  io::backend& io = self.group().io();
  connection_backlog* const backlog = backlog_of(self);
  scratch_buffer buffer;
  received_bytes.append(unconsumed_bytes);
  if (unconsumed_bytes.empty() && backlog != nullptr)
    received_bytes = std::exchange(backlog->rest, {});
  received_bytes.append(self.group().take_early(self));
  if (self.reading()) io.stop_receiving(self);
  while (io.end_receiving_ahead(self)) {
    io::read_request request(self, buffer->prepare(received_at_once), nullptr);
    const io::result outcome = io.attempt(request);
    if (!outcome && !outcome.would_block()) {  // the socket reports this error only once
      self.end(outcome.error(), connection_end::in_order);
      throw std::system_error(outcome.error(), "tcp_connection::release");
    }
    if (!outcome || outcome.count() == 0) break;  // the next read reports the same end
    buffer->commit(outcome.count());
    self.count_received(outcome.count());
    if (self.has_layer()) {
      layer_of(self).protocol().feed(buffer->bytes());
      layer_of(self).protocol().keep_unread();
    } else {
      received_bytes.append(buffer->bytes());
    }
    buffer->consume_all();
  }
}

// --- Descriptors ---

void connection_input::prepare_for_descriptors() {
  connection_io& self = whole_of(*this);
  if (self.is_tcp() || self.has_layer() || self.group().options().fd_limit == 0) return;
  io::handle& socket = self;
  self.make_backlog().descriptors =
      std::make_unique<descriptor_input>(socket, &on_done<&connection_input::readable>);
}

std::vector<unique_fd> connection_input::take_fds() noexcept {
  connection_backlog* const backlog = backlog_of(whole_of(*this));
  if (backlog == nullptr || backlog->descriptors == nullptr) return {};
  return std::exchange(backlog->descriptors->fds, {});
}

void connection_input::readable(io::result result) {
  if (!result) return on_receiving_failed(result.error());
  receive_with_descriptors();
}

void connection_input::receive_with_descriptors() {
  connection_io& self = whole_of(*this);
  std::array<std::byte, received_at_once> buffer;
  const iovec piece{buffer.data(), buffer.size()};
  message_with_fds message({&piece, 1});
  message.make_room();
  io::receive_message_request request(self, message.header, nullptr);
  const io::result outcome = self.group().io().attempt(request);
  if (!outcome && !outcome.would_block()) return on_receiving_failed(outcome.error());
  if (outcome) {
    std::vector<unique_fd> fds = message.take();
    if (outcome.count() == 0) return on_peer_end();
    if (message.is_truncated() || !keep_descriptors(std::move(fds))) {
      return self.abort(io::errc::fd_limit);
    }
    receive(std::span(buffer).first(outcome.count()));
  }
  start_receiving();
}

// Keeps received descriptors for the program. Returns false if too many would wait. A closed
// connection drops them.
bool connection_input::keep_descriptors(std::vector<unique_fd> descriptors) {
  connection_io& self = whole_of(*this);
  std::vector<unique_fd>& kept_fds = backlog_of(self)->descriptors->fds;
  if (!self.delivers() || !self.group().handlers().message) return true;
  if (descriptors.size() > self.group().options().fd_limit - kept_fds.size()) return false;
  kept_fds.insert(kept_fds.end(), std::move_iterator(descriptors.begin()),
                  std::move_iterator(descriptors.end()));
  return true;
}

}  // namespace gyre::net::detail
