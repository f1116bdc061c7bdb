// SPDX-License-Identifier: Apache-2.0
// Connections with a layer: plain bytes that it gives are delivered, and output is written to it
// when it can be sent.
#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/layer_limits.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gyre::net {
namespace {

using io::detail::scratch_buffer;

std::span<const std::byte> first_part(std::span<const std::byte> bytes, std::size_t limit) {
  return bytes.first(std::min(bytes.size(), limit));
}

}  // namespace

detail::layered_extra& tcp_connection::layered() const noexcept {
  return static_cast<detail::layered_extra&>(*extra_);
}

const layer* tcp_connection::layer() const noexcept {
  return layered_ ? layered().protocol.get() : nullptr;
}

std::size_t tcp_connection::pending_sealed() const noexcept {
  return layered().sealed.size() + layered().replies.size();
}

// Whether the layer's end is to be sent, after all output.
bool tcp_connection::end_is_due() const noexcept {
  return (phase_ == phase::flushing || shutdown_requested_) && !has_failed() && !fin_sent_;
}

// Output, or its end, cannot be encrypted yet: bytes are received for it even while the program has
// reading paused, as it may go on only when its output is sent.
bool tcp_connection::awaits_peer() const noexcept {
  return layered_ && !layered().may_write() &&
         (pending_output() > pending_sealed() || end_is_due());
}

// --- Receiving ---

void tcp_connection::receive_layered(std::span<const std::byte> bytes) {
  const bool awaited = awaits_peer();
  if (peer_done_ || (phase_ != phase::open && !awaited)) return;
  net::layer& protocol = *layered().protocol;
  scratch_buffer plain;
  io::buffer replies;
  protocol.send_to(replies);
  protocol.feed(bytes);
  const bool has_failed = protocol.read_all(*plain) == layer::status::failed;
  protocol.keep_unread();
  if (!protocol.unread().empty()) {  // they count as bytes that a program leaves
    static_cast<void>(make_backlog());
    if (protocol.unread().size() > group_->options().input_limit) {
      return abort(io::errc::input_limit);
    }
    if (!update_held_bytes()) return abort(io::errc::memory_limit);
  }
  const std::error_code failed = has_failed ? protocol.error() : std::error_code();
  if (!replies.empty()) send_replies(std::move(replies));
  if (awaited && !failed && !awaits_peer()) send_awaiting();
  if (!plain->empty()) deliver(plain->bytes());
  if (!is_open()) return;
  // Sending may have failed before, because of what the peer has said now.
  if (failed) return end(failed, ending::in_order);
  if (protocol.has_ended() && phase_ == phase::open && !peer_done_) {
    if (handle::reading()) io().stop_receiving(*this);
    // Behind bytes that wait for their turn, or for the program.
    if (!reading_paused() && !due_.has(call::message)) on_peer_end();
  }
}

// Output, or its end, need wait for the peer no longer.
void tcp_connection::send_awaiting() {
  if (!is_open()) return;
  if (reading_paused() && handle::reading()) io().stop_receiving(*this);
  if (!handle::writing() && (pending_output() > 0 || end_is_due())) flush_layered();
}

void tcp_connection::send_replies(io::buffer replies) {
  if (has_failed() || fin_sent_) return;
  if (pending_output() == 0) {
    io::write_request writing(*this, replies.bytes(), nullptr);
    replies.consume(send_now(writing));
    if (replies.empty() || has_failed() || !is_open()) return;
  }
  static_cast<void>(make_backlog());
  layered().replies.append(replies.bytes());
  if (layered().replies.size() > detail::max_replies) return abort(io::errc::output_limit);
  if (!handle::writing()) flush();
  if (is_open() && !has_failed()) watch_output();
}

// --- Sending ---

bool tcp_connection::send_layered(std::span<const std::span<const std::byte>> pieces) try {
  scratch_buffer plain;  // small pieces share a record
  std::span<const std::byte> left;
  if (pieces.size() == 1) {
    left = pieces.front();
  } else {
    std::size_t size = 0;
    for (const auto piece : pieces) size += piece.size();
    if (size > detail::max_written_at_once) {
      return std::ranges::all_of(pieces, [this](const auto piece) { return send(piece); });
    }
    for (const auto piece : pieces) plain->append(piece);
    left = plain->bytes();
  }

  scratch_buffer sealed;
  if (pending_output() == 0 && layered().may_write()) {
    while (!left.empty() && sealed->empty()) {
      const auto part = first_part(left, detail::max_written_at_once);
      if (const auto failed = layered().write(part, *sealed)) {
        return end_after(*sealed, failed);
      }
      left = left.subspan(part.size());
      if (sealed->empty()) continue;  // the layer keeps it back
      io::write_request writing(*this, sealed->bytes(), nullptr);
      sealed->consume(send_now(writing));
      if (!can_send()) return false;
    }
    if (left.empty() && sealed->empty()) return note_all_sent();
  }
  return queue_layered(sealed->bytes(), left);
} catch (const std::bad_alloc&) {
  return refuse(detail::no_memory());
}

// Ends a connection whose layer has failed, after the layer's last message.
bool tcp_connection::end_after(const io::buffer& last_message, std::error_code why) noexcept {
  if (!last_message.empty()) {
    io::write_request writing(*this, last_message.bytes(), nullptr);
    static_cast<void>(io().attempt(writing));
  }
  end(why, ending::in_order);
  return false;
}

void tcp_connection::flush_layered() {
  detail::connection_backlog& waiting = *backlog();
  io::buffer& sealed = layered().sealed;
  for (;;) {
    while (!sealed.empty()) {
      waiting.pieces[0] = {const_cast<std::byte*>(sealed.data()), sealed.size()};
      waiting.writing.pieces = std::span(waiting.pieces).first(1);
      const std::optional<io::result> result = io().start(waiting.writing);
      if (!result) return;
      if (!*result) return sending_failed(result->error());
      consume_sealed(result->count());
    }
    bool has_progressed = false;
    std::error_code failed;
    try {
      failed = seal_next(has_progressed);
    } catch (const std::exception&) {
      return static_cast<void>(refuse(detail::no_memory()));
    }
    if (failed) return static_cast<void>(end_after(sealed, failed));
    if (!has_progressed) break;
    if (sealed.empty()) on_output_shrunk();  // the layer keeps it back
  }
  scratch_buffer::give_back(std::exchange(sealed, io::buffer()));
  if (!awaits_peer()) return all_is_sent();
  if (peer_done_) return end(layered().cut_off(), ending::in_order);
  start_receiving();
  if (pending_output() > 0) return;
  if (phase_ == phase::open) static_cast<void>(note_all_sent());
  if (limited_when_sent_) close();
}

void tcp_connection::consume_sealed(std::size_t bytes) noexcept {
  count_sent(bytes);
  layered().sealed.consume(bytes);
  on_output_shrunk();
}

// Writes to the layer what is to be sent next, if there is anything. The kernel does not read
// `sealed` at present.
std::error_code tcp_connection::seal_next(bool& has_progressed) {
  detail::layered_extra& own = layered();
  detail::connection_backlog& waiting = *backlog();
  if (!own.replies.empty()) {
    own.sealed = std::exchange(own.replies, io::buffer());
    has_progressed = true;
    return {};
  }
  if (!own.may_write()) return {};
  if (own.sealed.capacity() == 0) own.sealed = scratch_buffer::take();
  if (waiting.attached != nullptr && waiting.attached->is_due()) {
    has_progressed = true;
    return seal_file_part();
  }
  if (waiting.output.empty()) {
    own.protocol->send_to(own.sealed);
    has_progressed = end_is_due() && !own.protocol->has_announced_end();
    if (has_progressed) own.protocol->end();
    return {};
  }
  has_progressed = true;
  scratch_buffer room;
  detail::record_parts parts(next_output(), *room, detail::writable_at_once(io()));
  std::size_t taken = 0;
  for (auto part = parts.next(); !part.empty(); part = parts.next()) {
    if (const auto failed = own.write(part, own.sealed)) return failed;
    taken += part.size();
  }
  waiting.output.consume(taken);
  if (waiting.attached != nullptr) waiting.attached->consume(taken);
  return {};
}

std::error_code tcp_connection::seal_file_part() {
  detail::output_attachment& part = backlog()->attached->first();
  const std::size_t wanted = std::min(part.left, detail::max_file_part);
  scratch_buffer plain;
  const std::span<std::byte> room = plain->prepare(wanted);
  const ssize_t count = gyre::detail::retry_interrupted(
      [&] { return ::pread(part.file.get(), room.data(), wanted, part.offset); });
  if (count < 0) return {errno, std::system_category()};
  if (count == 0) return io::errc::unexpected_end;  // it has become shorter
  plain->commit(static_cast<std::size_t>(count));
  io().charge(plain->size());
  part.offset += count;
  part.left -= plain->size();
  if (part.left == 0) backlog()->attached->remove_first();
  return layered().write(plain->bytes(), layered().sealed);
}

// All that was accepted has been sent: the end is announced before the FIN.
void tcp_connection::end_layered() noexcept {
  try {
    static_cast<void>(make_backlog());
  } catch (const std::bad_alloc&) {
    return abort(detail::no_memory());
  }
  if (!handle::writing()) flush_layered();
}

}  // namespace gyre::net
