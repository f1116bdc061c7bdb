// SPDX-License-Identifier: Apache-2.0
// The completions of subscriptions, and the requests that wait for them.
#include <gyre/io/detail/uring_requests.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gyre::io::detail {
namespace {

bool has_buffer(const io_uring_cqe& completion) noexcept {
  return (completion.flags & IORING_CQE_F_BUFFER) != 0;
}

std::uint32_t events_of(const io_uring_cqe& completion) noexcept {
  const auto events = static_cast<std::uint32_t>(completion.res);
  return (events & POLLRDBAND) != 0 ? events & ~std::uint32_t{POLLPRI | POLLRDBAND} : events;
}

// Asks for the address of a connection's peer; false if there is none any more.
bool fill_peer(accept_request& acceptor, int connection) noexcept {
  acceptor.peer_size = sizeof acceptor.peer;
  return ::getpeername(connection, reinterpret_cast<sockaddr*>(&acceptor.peer),
                       &acceptor.peer_size) == 0;
}

// The kernel cannot watch a descriptor, for want of memory or because of its kind.
bool is_refusal(const io_uring_cqe& completion, subscription which) noexcept {
  return (which == subscription::readable || which == subscription::writable) &&
         completion.res < 0 && completion.res != -ECANCELED;
}

}  // namespace

void uring_requests::serve_completion(const io_uring_cqe& completion, std::size_t& completed) {
  handle* const target = target_of(completion);
  if (target == nullptr) return discard(completion);
  if (deliver_bytes(*target, completion)) [[likely]] {
    const auto count = static_cast<std::size_t>(completion.res);
    return hand_over(*target, *target->reader, result::of(count), completed);
  }
  if (deliver_connection(*target, completion)) {
    unique_fd accepted(completion.res);
    auto& acceptor = static_cast<accept_request&>(*target->reader);
    if (!fill_peer(acceptor, accepted.get())) return;
    return hand_over(*target, acceptor, result::of(static_cast<std::size_t>(accepted.release())),
                     completed);
  }
  record_for(*target, completion);
  const subscription which = subscription_of(completion);
  if (!is_refusal(completion, which)) return serve(*target, 0, completed);
  // To subscribe again would be in vain, or at once.
  request* const waiting = which == subscription::writable ? target->writer : target->reader;
  if (waiting != nullptr) {
    hand_over(*target, *waiting, result::failure(-completion.res), completed);
  }
}

bool uring_requests::deliver_bytes(handle& target, const io_uring_cqe& completion) noexcept {
  registration& entry = registrations_[target.index];
  request* const reader = target.reader;
  if (subscription_of(completion) != subscription::receive || completion.res <= 0) return false;
  if (!entry.early_bytes.empty() || reader == nullptr || !can_receive(target, *reader)) {
    return false;
  }
  const auto count = static_cast<std::size_t>(completion.res);
  if (is_last(completion)) entry.end(subscription_of(completion));
  if (count >= large_message) {
    entry.prefers_calls = true;
    entry.small_messages = 0;
    unsubscribe(target, subscription::receive);
  }
  update_flags(target);
  if (is_last(completion)) subscribe_to(target, direction::read);
  lend_to(*reader, buffers_.lend(buffer_ring::named_by(completion), count));
  return true;
}

bool uring_requests::deliver_connection(handle& target, const io_uring_cqe& completion) noexcept {
  registration& entry = registrations_[target.index];
  request* const reader = target.reader;
  if (subscription_of(completion) != subscription::accept || completion.res < 0) return false;
  if (entry.has_early_data() || reader == nullptr || !can_accept(*reader)) return false;
  if (is_last(completion)) entry.end(subscription_of(completion));
  update_flags(target);
  if (is_last(completion)) subscribe_to(target, direction::read);
  return true;
}

void uring_requests::record(const io_uring_cqe& completion) noexcept {
  if (handle* const target = target_of(completion)) {
    record_for(*target, completion);
  } else {
    discard(completion);
  }
}

void uring_requests::record_for(handle& target, const io_uring_cqe& completion) noexcept {
  registration& entry = registrations_[target.index];
  if (is_last(completion)) entry.end(subscription_of(completion));
  switch (subscription_of(completion)) {
    case subscription::readable:
    case subscription::writable:
      entry.is_unconfirmed = false;
      if (completion.res >= 0) note_events(target, events_of(completion));
      if (target.writer == nullptr) unsubscribe(target, subscription::writable);
      break;
    case subscription::receive: record_received(target, completion); break;
    case subscription::accept: record_accepted(target, completion); break;
  }
  update_flags(target);
}

void uring_requests::record_received(handle& target, const io_uring_cqe& completion) noexcept {
  registration& entry = registrations_[target.index];
  if (completion.res > 0) {
    entry.early_bytes.push(buffers_, buffer_ring::named_by(completion),
                           static_cast<std::size_t>(completion.res));
    return unsubscribe(target, subscription::receive);
  }
  if (has_buffer(completion)) buffers_.recycle(buffer_ring::named_by(completion));
  switch (-completion.res) {
    case ENOBUFS: buffers_.add_buffer(); break;
    case 0:
    case ECANCELED:
    case ENOMEM:
    case EAGAIN:
    case EINTR: break;  // a call tells it again, or what there is now
    case EINVAL:
    case EOPNOTSUPP:
      entry.prefers_calls = true;
      entry.small_messages = 0;
      break;
    default: entry.early_error = static_cast<std::uint8_t>(-completion.res);
  }
}

void uring_requests::record_accepted(handle& target, const io_uring_cqe& completion) noexcept {
  if (completion.res < 0) return;  // a call tells it again
  unsubscribe(target, subscription::accept);
  unique_fd accepted(completion.res);
  try {
    connections_.push_back({target.index, std::move(accepted)});
    registrations_[target.index].early_connections = true;
  } catch (...) {
    return;  // closes the connection
  }
}

void uring_requests::discard(const io_uring_cqe& completion) noexcept {
  if (has_buffer(completion)) buffers_.recycle(buffer_ring::named_by(completion));
  if (subscription_of(completion) == subscription::accept && completion.res >= 0) {
    unique_fd{completion.res};
  }
}

// ---- early data

std::size_t uring_requests::scatter_early(registration& entry,
                                          std::span<const iovec> pieces) noexcept {
  std::size_t count = 0;
  for (const iovec& piece : pieces) {
    count +=
        entry.early_bytes.read(buffers_, {static_cast<std::byte*>(piece.iov_base), piece.iov_len});
  }
  return count;
}

std::size_t uring_requests::read_early_message(registration& entry, msghdr& message) noexcept {
  message.msg_namelen = 0;
  message.msg_controllen = 0;
  message.msg_flags = 0;
  return scatter_early(entry, {message.msg_iov, message.msg_iovlen});
}

std::optional<result> uring_requests::read_early(registration& entry, request& reader) noexcept {
  if (entry.early_bytes.empty()) return std::nullopt;
  switch (reader.kind()) {
    case request_kind::receive:
    case request_kind::receive_transient:
    case request_kind::receive_shared: {
      received oldest = entry.early_bytes.pop(buffers_);
      const std::size_t count = oldest.size();
      lend_to(reader, std::move(oldest));
      return result::of(count);
    }
    case request_kind::read: {
      auto& reading = static_cast<read_request&>(reader);
      const std::size_t count = entry.early_bytes.read(buffers_, reading.rest);
      reading.rest = reading.rest.subspan(count);
      reading.done += count;
      if (reading.whole() && !reading.rest.empty()) return std::nullopt;
      return result::of(reading.done);
    }
    case request_kind::scatter:
      return result::of(scatter_early(entry, static_cast<scatter_request&>(reader).pieces));
    case request_kind::receive_message:
      return result::of(
          read_early_message(entry, *static_cast<receive_message_request&>(reader).message));
    case request_kind::receive_messages: {
      mmsghdr& first = static_cast<receive_messages_request&>(reader).messages.front();
      first.msg_len = static_cast<unsigned>(read_early_message(entry, first.msg_hdr));
      return result::of(1);
    }
    default: return result::of(0);  // reads no bytes
  }
}

// The listener's oldest connection whose peer is still there.
std::optional<result> uring_requests::accept_early(accept_request& acceptor) noexcept {
  const std::uint32_t listener = acceptor.target().index;
  const auto is_its = [listener](const early_connection& each) {
    return each.listener == listener;
  };
  std::optional<result> outcome;
  auto next = std::ranges::find_if(connections_, is_its);
  while (next != connections_.end() && !outcome) {
    unique_fd fd = std::move(next->fd);
    next = std::find_if(connections_.erase(next), connections_.end(), is_its);
    if (fill_peer(acceptor, fd.get())) outcome = result::of(static_cast<std::size_t>(fd.release()));
  }
  registrations_[listener].early_connections = next != connections_.end();
  return outcome;
}

result uring_requests::take_early(handle& target, request& reader) noexcept {
  registration& entry = registrations_[target.index];
  std::optional<result> outcome;
  switch (reader.kind()) {
    case request_kind::wait_readable:
      if (entry.has_early_data()) outcome = result::of(0);
      break;
    case request_kind::accept: outcome = accept_early(static_cast<accept_request&>(reader)); break;
    default: outcome = read_early(entry, reader);
  }
  if (!outcome && entry.early_error != 0) {
    outcome = result::failure(std::exchange(entry.early_error, 0));
  }
  update_flags(target);
  return outcome.value_or(result::failure(EAGAIN));
}

// While the kernel receives, a call would overtake it.
void uring_requests::update_flags(handle& target) noexcept {
  using enum handle_flag;
  const registration& entry = registrations_[target.index];
  auto& flags = target.flags;
  const bool receives =
      entry.armed.has_any(subscription_set(subscription::receive) | subscription::accept);
  if (entry.has_early_data()) {
    flags.insert(kernel_receives);
    flags.insert(may_read);
  } else if (receives) {
    flags.insert(kernel_receives);
    flags.erase(may_read);
  } else {
    if (flags.has(kernel_receives)) flags.insert(may_read);
    flags.erase(kernel_receives);
  }
}

bool uring_requests::all_reads_confirmed() noexcept {
  while (!unconfirmed_.empty() && !registrations_[unconfirmed_.back()].is_unconfirmed) {
    registrations_[unconfirmed_.back()].in_unconfirmed = false;
    unconfirmed_.pop_back();
  }
  return unconfirmed_.empty();
}

// A read stops at urgent data, and bytes behind it are not reported. Most completions show urgent
// data, but not all (see events_of()). To read until nothing is left would cost each message a call
// in vain; so a short read is doubted only when nothing comes for a while.
void uring_requests::retry_short_reads() noexcept {
  while (!all_reads_confirmed()) {
    const std::uint32_t index = unconfirmed_.back();
    registrations_[index].is_unconfirmed = false;  // drops it from the list
    handle& waiting = *handles()[index];
    waiting.flags.erase(handle_flag::trusts_short_read);
    const int at_urgent_data = ::sockatmark(waiting.fd());  // negative if it cannot be known
    if (at_urgent_data != 0) waiting.flags.insert(handle_flag::may_read);
    if (at_urgent_data > 0) waiting.flags.insert(handle_flag::short_reads_mislead);
    if (waiting.reading() && waiting.flags.has(handle_flag::may_read)) serve_later(waiting);
  }
}

}  // namespace gyre::io::detail
