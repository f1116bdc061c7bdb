// SPDX-License-Identifier: Apache-2.0
// Connections with a transport: what it decrypts is delivered, and output is encrypted when it is
// sent.
#include <gyre/base/detail/retry_interrupted.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/net/transport.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gyre::net {
namespace {

using io::detail::scratch_buffer;

constexpr std::size_t most_sealed_at_once = std::size_t{256} << 10;
constexpr std::size_t most_read_at_once = std::size_t{64} << 10;
constexpr std::size_t record_size = std::size_t{16} << 10;
// Answers that a peer can cause without reading them.
constexpr std::size_t most_answers = std::size_t{64} << 10;

std::span<const std::byte> first_part(std::span<const std::byte> bytes, std::size_t most) {
  return bytes.first(std::min(bytes.size(), most));
}

}  // namespace

detail::filtered_extra& tcp_connection::filtered() const noexcept {
  return static_cast<detail::filtered_extra&>(*extra_);
}

const transport_filter* tcp_connection::filter() const noexcept {
  return filtered_ ? filtered().filter.get() : nullptr;
}

std::size_t tcp_connection::pending_sealed() const noexcept {
  return filtered().sealed.size() + filtered().answers.size();
}

// Behind all output.
bool tcp_connection::end_is_due() const noexcept {
  return (phase_ == phase::flushing || shutdown_requested_) && !has_failed() && !fin_sent_;
}

// Output, or its end, cannot be encrypted yet: bytes are received for it even while the program has
// reading paused, as it may go on only when its output is sent.
bool tcp_connection::awaits_peer() const noexcept {
  return filtered_ && !filtered().filter->may_seal() &&
         (pending_output() > pending_sealed() || end_is_due());
}

// --- Receiving ---

void tcp_connection::receive_filtered(std::span<const std::byte> bytes) {
  const bool awaited = awaits_peer();
  if (peer_done_ || (phase_ != phase::open && !awaited)) return;
  transport_filter& filter = *filtered().filter;
  scratch_buffer plain;
  io::buffer answers;
  const std::error_code failed = filter.open(bytes, *plain, answers);
  if (!answers.empty()) send_answers(std::move(answers));
  if (awaited && !failed && !awaits_peer()) send_awaiting();
  if (!plain->empty() && phase_ == phase::open && group_->handlers().message) {
    // A handler that pauses while a connection begins gets the bytes later.
    reading_paused() ? keep_rest(plain->bytes()) : deliver(plain->bytes());
  }
  if (!is_open()) return;
  // Sending may have failed before, because of what the peer has said now.
  if (failed) return end(failed, ending::in_order);
  if (filter.has_ended() && phase_ == phase::open && !peer_done_) {
    if (handle::reading()) io().cancel(*handle::reader);
    // Behind bytes that wait for their turn, or for the program.
    if (!reading_paused() && !due_.has(call::message)) on_peer_end();
  }
}

// Output, or its end, need wait for the peer no longer.
void tcp_connection::send_awaiting() {
  if (!is_open()) return;
  if (reading_paused() && handle::reading()) io().cancel(*handle::reader);
  if (!handle::writing() && (pending_output() > 0 || end_is_due())) flush_filtered();
}

void tcp_connection::send_answers(io::buffer answers) {
  if (has_failed() || fin_sent_) return;
  if (pending_output() == 0) {
    io::write_request writing(*this, answers.bytes(), nullptr);
    answers.consume(send_now(writing));
    if (answers.empty() || has_failed() || !is_open()) return;
  }
  static_cast<void>(make_backlog());
  filtered().answers.append(answers.bytes());
  if (filtered().answers.size() > most_answers) return abort(io::errc::output_limit);
  if (!handle::writing()) flush();
  if (is_open() && !has_failed()) watch_output();
}

// --- Sending ---

bool tcp_connection::send_filtered(std::span<const std::span<const std::byte>> pieces) try {
  scratch_buffer plain;  // small pieces share a record
  std::size_t left = 0;
  for (const auto piece : pieces) left += piece.size();
  std::span<const std::byte> single;
  if (pieces.size() > 1) {
    if (left <= most_sealed_at_once) {
      for (const auto piece : pieces) plain->append(piece);
      single = plain->bytes();
    } else {
      for (const auto piece : pieces) {
        if (!send(piece)) return false;
      }
      return true;
    }
  } else {
    single = pieces.front();
  }

  scratch_buffer sealed;
  if (pending_output() == 0 && filtered().filter->may_seal()) {
    while (!single.empty() && sealed->empty()) {
      const auto part = first_part(single, most_sealed_at_once);
      if (const auto failed = filtered().filter->seal(part, *sealed)) return refuse(failed);
      single = single.subspan(part.size());
      io::write_request writing(*this, sealed->bytes(), nullptr);
      sealed->consume(send_now(writing));
      if (!can_send()) return false;
    }
    if (single.empty() && sealed->empty()) return note_all_sent();
  }
  return queue_filtered(sealed->bytes(), single);
} catch (const std::bad_alloc&) {
  return refuse(detail::no_memory());
}

void tcp_connection::flush_filtered() {
  detail::connection_backlog& waiting = *backlog();
  io::buffer& sealed = filtered().sealed;
  for (;;) {
    while (!sealed.empty()) {
      waiting.pieces[0] = {const_cast<std::byte*>(sealed.data()), sealed.size()};
      waiting.writing.pieces = std::span(waiting.pieces).first(1);
      const std::optional<io::result> result = io().start(waiting.writing);
      if (!result) return;
      if (!*result) return sending_failed(result->error());
      consume_sealed(result->count());
    }
    std::error_code failed;
    try {
      failed = seal_next();
    } catch (const std::exception&) {
      failed = detail::no_memory();
    }
    if (failed) return static_cast<void>(refuse(failed));
    if (sealed.empty()) break;
  }
  scratch_buffer::give_back(std::exchange(sealed, io::buffer()));
  if (!awaits_peer()) return all_is_sent();
  if (peer_done_) return end(filtered().filter->end_of_bytes(), ending::in_order);
  start_receiving();
  if (pending_output() > 0) return;
  if (phase_ == phase::open) static_cast<void>(note_all_sent());
  if (limited_when_sent_) close();
}

void tcp_connection::consume_sealed(std::size_t bytes) noexcept {
  count_sent(bytes);
  filtered().sealed.consume(bytes);
  on_output_shrunk();
}

// Encrypts what is to be sent next; nothing is sealed when there is none. The kernel reads nothing
// of it at present.
std::error_code tcp_connection::seal_next() {
  detail::filtered_extra& own = filtered();
  detail::connection_backlog& waiting = *backlog();
  if (!own.answers.empty()) {
    own.sealed = std::exchange(own.answers, io::buffer());
    return {};
  }
  if (!own.filter->may_seal()) return {};
  if (own.sealed.capacity() == 0) own.sealed = scratch_buffer::take();
  if (waiting.attached != nullptr && waiting.attached->is_due()) return seal_file_part();
  if (waiting.output.empty()) {
    if (end_is_due()) own.filter->seal_end(own.sealed);
    return {};
  }
  // More than this visit may send would only wait.
  const std::size_t most =
      std::clamp(io().share_left(io::direction::write), record_size, most_sealed_at_once);
  scratch_buffer plain;
  std::size_t taken = 0;
  for (const iovec& piece : next_output()) {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(piece.iov_base),
                                           piece.iov_len);
    const auto part = first_part(bytes, most - taken);
    taken += part.size();
    // Small pieces share a record.
    if (plain->size() + part.size() > record_size && !plain->empty()) {
      if (const auto failed = own.filter->seal(plain->bytes(), own.sealed)) return failed;
      plain->clear();
    }
    if (part.size() > record_size) {
      if (const auto failed = own.filter->seal(part, own.sealed)) return failed;
    } else {
      plain->append(part);
    }
    if (taken == most) break;
  }
  if (!plain->empty()) {
    if (const auto failed = own.filter->seal(plain->bytes(), own.sealed)) return failed;
  }
  waiting.output.consume(taken);
  if (waiting.attached != nullptr) waiting.attached->consume(taken);
  return {};
}

std::error_code tcp_connection::seal_file_part() {
  detail::output_attachment& part = backlog()->attached->first();
  const std::size_t wanted = std::min(part.left, most_read_at_once);
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
  return filtered().filter->seal(plain->bytes(), filtered().sealed);
}

// All that was accepted has been sent: the end is announced before the FIN.
void tcp_connection::end_filtered() noexcept {
  try {
    static_cast<void>(make_backlog());
  } catch (const std::bad_alloc&) {
    return abort(detail::no_memory());
  }
  if (!handle::writing()) flush_filtered();
}

}  // namespace gyre::net
