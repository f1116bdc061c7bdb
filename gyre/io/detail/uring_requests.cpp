// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/uring_requests.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace gyre::io::detail {
namespace {

// The `user_data` of a completion that is ignored.
constexpr std::uint64_t ignored_tag = 0;

// Any data wakes a socket's waiters with POLLIN, POLLPRI and POLLRDBAND, and a completion repeats
// these events. A completion for two wake-ups, as with urgent data, has the socket's own state:
// POLLPRI for urgent data, never POLLRDBAND.
constexpr unsigned readable_events = POLLIN | POLLRDHUP | POLLPRI | POLLRDBAND;

bool has_buffer(const io_uring_cqe& completion) noexcept {
  return (completion.flags & IORING_CQE_F_BUFFER) != 0;
}

// Whether the socket had more bytes than were received. The kernel then receives again at once, and
// stops with bytes left only at urgent data: TCP does not pass it while a signal is pending.
bool left_bytes(const io_uring_cqe& completion) noexcept {
  return (completion.flags & IORING_CQE_F_SOCK_NONEMPTY) != 0;
}

std::uint32_t events_of(const io_uring_cqe& completion) noexcept {
  const auto events = static_cast<std::uint32_t>(completion.res);
  return (events & POLLRDBAND) != 0 ? events & ~std::uint32_t{POLLPRI | POLLRDBAND} : events;
}

// Fills in the address of a connection's peer. Returns false if the peer is gone.
bool fill_peer(accept_request& acceptor, int connection) noexcept {
  acceptor.peer_size = sizeof acceptor.peer;
  return ::getpeername(connection, reinterpret_cast<sockaddr*>(&acceptor.peer),
                       &acceptor.peer_size) == 0;
}

// Returns whether the kernel cannot watch a descriptor, because of its kind or for lack of memory.
bool is_refusal(const io_uring_cqe& completion, subscription kind) noexcept {
  return (kind == subscription::readable || kind == subscription::writable) && completion.res < 0 &&
         completion.res != -ECANCELED;
}

}  // namespace

uring_requests::uring_requests(ring_owner& owner, uring& ring, const uring_features& features)
    : owner_(owner), ring_(ring), features_(features) {
  // Only kernels with both features (6.0) let a ring's last completions be taken before it is
  // closed.
  if (!features_.multishot_receive) features_.multishot_accept = false;
}

void uring_requests::provide_buffers() noexcept {
  has_buffers_ = features_.multishot_receive && buffers_.provide_to(ring_.raw()) == 0;
}

// ---- handles

void uring_requests::add(handle& target) {
  const std::size_t count = target.index + std::size_t{1};
  registrations_.grow_to(count);
  for (std::vector<std::uint32_t>* const list : {&changed_handles_, &unconfirmed_handles_}) {
    if (list->capacity() < count) list->reserve(2 * count);
  }
  // For sockets, the first request reports a descriptor that is not a socket, or is not open.
  if (target.kind() == handle_kind::other) require_pollable(target.fd());
}

void uring_requests::remove(handle& target) noexcept {
  registration& entry = registrations_[target.index];
  entry.wanted_kinds.clear();
  entry.is_unconfirmed = false;
  // Accepted connections end with their listener, not when their completions are served.
  const bool is_accepting = entry.armed_kinds.has(subscription::accept);
  await_end_of(target.index);
  entry.early_bytes.clear(buffers_);
  if (entry.has_early_connections) {
    std::erase_if(connections_, [&](const auto& connection) {
      return connection.listener_index == target.index;
    });
  }
  const auto generation = static_cast<std::uint16_t>(entry.generation + 1);
  // From now on completions of the closed handle are recognised by their generation. When the
  // generations begin again, no completion of a former handle with this generation may be left.
  if (is_accepting || generation == 0) discard_completions_of(target.index);
  registration new_entry;
  new_entry.generation = generation;
  new_entry.is_in_changed = entry.is_in_changed;
  new_entry.is_in_unconfirmed = entry.is_in_unconfirmed;
  entry = new_entry;
  discard_oldest_stale();
}

// Waits until the kernel has ended all subscriptions of a handle. The kernel holds the file of each
// subscription, so closing the descriptor alone would end nothing.
void uring_requests::await_end_of(std::uint32_t index) noexcept {
  constexpr int max_attempts = 1000;
  const registration& entry = registrations_[index];
  if (!entry.armed_kinds.empty()) examine_completions();
  for (int attempt = 0; entry.has_live(); ++attempt) {
    if (!ring_.usable_here() || attempt == max_attempts) return owner_.abandon_ring();
    cancel_all_of(index);
    ring_.enter();
    examine_completions();
    if (entry.has_live() && ring_.full() && !ring_.set_aside()) return owner_.abandon_ring();
  }
}

// Notes which subscriptions of all handles have ended. Examines each completion once, however many
// handles are closed before the completion is taken.
void uring_requests::examine_completions() noexcept {
  const std::uint64_t oldest_number = ring_.taken();
  const std::uint64_t end = oldest_number + ring_.ready();
  examined_until_ = std::max(examined_until_, oldest_number);
  examined_completions_ += end - examined_until_;
  for (; examined_until_ != end; ++examined_until_) {
    const io_uring_cqe& completion =
        ring_.at(static_cast<unsigned>(examined_until_ - oldest_number));
    if (tag_of(completion) != subscription_id::tag || !is_last(completion)) continue;
    if (handle* const target = target_of(completion)) {
      registrations_[target->index].ended_kinds.insert(subscription_of(completion));
    }
  }
}

// Discards the completions of one handle. Examines all completions: for handles that are rarely
// closed.
void uring_requests::discard_completions_of(std::uint32_t index) noexcept {
  examined_completions_ += ring_.ready();
  for (unsigned i = 0; i < ring_.ready(); ++i) {
    io_uring_cqe& completion = ring_.at(i);
    if (tag_of(completion) != subscription_id::tag || detail::id_of(completion).index != index)
      continue;
    discard_completion(completion);
    completion.user_data = ignored_tag;
  }
}

bool uring_requests::end_receiving_ahead(handle& source) noexcept {
  registration& entry = registrations_[source.index];
  entry.wanted_kinds.clear();
  await_end_of(source.index);
  for (unsigned i = 0; i < ring_.ready(); ++i) {
    io_uring_cqe& completion = ring_.at(i);
    if (tag_of(completion) != subscription_id::tag || target_of(completion) != &source) continue;
    record_for(source, completion);
    completion.user_data = ignored_tag;
  }
  return entry.has_early_data();
}

// Takes stale completions, to make room for others when many handles are closed.
void uring_requests::discard_oldest_stale() noexcept {
  while (ring_.ready() > 0) {
    const io_uring_cqe& oldest_completion = ring_.at(0);
    const bool is_subscription = tag_of(oldest_completion) == subscription_id::tag;
    if (is_subscription ? target_of(oldest_completion) != nullptr
                        : oldest_completion.user_data != ignored_tag)
      return;
    const io_uring_cqe completion = ring_.take();
    if (is_subscription) discard_completion(completion);
  }
}

// ---- subscribing

void uring_requests::subscribe_to(handle& target, direction side) noexcept {
  registration& entry = registrations_[target.index];
  if (side == direction::write) return subscribe(target, subscription::writable);
  const request& reader = *target.reader;
  if (can_accept(reader)) return subscribe(target, subscription::accept);
  if (prefers_to_receive(target, entry)) {
    unsubscribe(target, subscription::readable);
    return subscribe(target, subscription::receive);
  }
  // Bytes that the kernel receives until the subscription ends come first. After its last
  // completion the request is tried again.
  if (entry.armed_kinds.has_any(subscription_set(subscription::receive) | subscription::accept)) {
    unsubscribe(target, subscription::receive);
    return unsubscribe(target, subscription::accept);
  }
  subscribe(target, subscription::readable);
  if (target.flags.has(handle_flag::trusts_short_read)) note_unconfirmed(target);
}

// Notes that the handle's read must be tried again if nothing arrives for a while.
void uring_requests::note_unconfirmed(handle& target) noexcept {
  registration& entry = registrations_[target.index];
  entry.is_unconfirmed = true;
  if (entry.is_in_unconfirmed) return;
  entry.is_in_unconfirmed = true;
  unconfirmed_handles_.push_back(target.index);
}

bool uring_requests::can_receive(const handle& source, const request& reader) const noexcept {
  return has_buffers_ && reader.receives() && reader.repeats() &&
         source.kind() == handle_kind::stream_socket;
}

bool uring_requests::can_accept(const request& reader) const noexcept {
  return features_.multishot_accept && reader.kind() == request_kind::accept && reader.repeats() &&
         static_cast<const accept_request&>(reader).ahead();
}

bool uring_requests::prefers_to_receive(const handle& source, registration& entry) noexcept {
  if (!can_receive(source, *source.reader)) return false;
  if (const std::size_t bytes = take_last_receive(); entry.prefers_calls && bytes > 0) {
    entry.small_messages = bytes <= small_message ? entry.small_messages + 1 : 0;
    if (entry.small_messages == min_small_messages) entry.prefers_calls = false;
  }
  // The kernel takes a buffer before it looks for bytes: without a buffer, it would refuse
  // immediately and repeatedly.
  return !entry.prefers_calls && !buffers_.exhausted();
}

void uring_requests::subscribe(handle& target, subscription kind) noexcept {
  registration& entry = registrations_[target.index];
  entry.wanted_kinds.insert(kind);
  if (!entry.armed_kinds.has(kind)) note_change(target);
}

void uring_requests::unsubscribe(handle& target, subscription kind) noexcept {
  registration& entry = registrations_[target.index];
  entry.wanted_kinds.erase(kind);
  if (entry.armed_kinds.has(kind)) note_change(target);
}

void uring_requests::note_change(handle& target) noexcept {
  registration& entry = registrations_[target.index];
  if (entry.is_in_changed) return;
  entry.is_in_changed = true;
  changed_handles_.push_back(target.index);
}

bool uring_requests::submit_changes() noexcept {
  while (!changed_handles_.empty()) {
    const std::uint32_t index = changed_handles_.back();
    if (handles()[index] != nullptr && !submit_changes_of(index)) return false;
    registrations_[index].is_in_changed = false;
    changed_handles_.pop_back();
  }
  return true;
}

bool uring_requests::submit_changes_of(std::uint32_t index) noexcept {
  handle& target = *handles()[index];
  registration& entry = registrations_[index];
  for (const subscription kind : all_subscriptions) {
    if (entry.wanted_kinds.has(kind) && !is_waited_for(target, kind))
      entry.wanted_kinds.erase(kind);
    const bool is_wanted = entry.wanted_kinds.has(kind);
    const bool is_armed = entry.armed_kinds.has(kind);
    if (is_wanted && !is_armed && !submit(target, kind)) return false;
    if (!is_wanted && is_armed && !entry.cancelled_kinds.has(kind) && !submit_cancel(index, kind))
      return false;
  }
  return true;
}

bool uring_requests::is_waited_for(const handle& target, subscription kind) const noexcept {
  const request* const reader = target.reader;
  switch (kind) {
    case subscription::readable: return reader != nullptr;
    case subscription::writable: return target.writer != nullptr;
    case subscription::receive: return reader != nullptr && can_receive(target, *reader);
    case subscription::accept: return reader != nullptr && can_accept(*reader);
  }
  return false;
}

bool uring_requests::submit(handle& target, subscription kind) noexcept {
  io_uring_sqe* const submission = ring_.next_submission();
  if (submission == nullptr) return false;
  const int fd = target.fd();
  switch (kind) {
    case subscription::readable:
      io_uring_prep_poll_multishot(submission, fd, readable_events);
      break;
    // The poll for writing is multishot, too: a peer that has closed its direction is reported
    // repeatedly.
    case subscription::writable: io_uring_prep_poll_multishot(submission, fd, POLLOUT); break;
    case subscription::receive:
      io_uring_prep_recv_multishot(submission, fd, nullptr, 0, 0);
      submission->flags |= IOSQE_BUFFER_SELECT;
      submission->buf_group = buffer_ring::group;
      break;
    case subscription::accept:
      io_uring_prep_multishot_accept(submission, fd, nullptr, nullptr,
                                     SOCK_NONBLOCK | SOCK_CLOEXEC);
      break;
  }
  submission->user_data = std::uint64_t{id_of(target.index, kind)};
  registrations_[target.index].armed_kinds.insert(kind);
  update_flags(target);
  return true;
}

bool uring_requests::submit_cancel(std::uint32_t index, subscription kind) noexcept {
  io_uring_sqe* const submission = ring_.next_submission();
  if (submission == nullptr) return false;
  io_uring_prep_cancel64(submission, std::uint64_t{id_of(index, kind)}, 0);
  submission->user_data = ignored_tag;
  registrations_[index].cancelled_kinds.insert(kind);
  return true;
}

bool uring_requests::cancel_all_of(std::uint32_t index) noexcept {
  const registration& entry = registrations_[index];
  const subscription_set subscriptions =
      entry.armed_kinds - (entry.cancelled_kinds | entry.ended_kinds);
  for (const subscription kind : all_subscriptions) {
    if (subscriptions.has(kind) && !submit_cancel(index, kind)) return false;
  }
  return true;
}

bool uring_requests::cancel_all() noexcept {
  bool has_subscriptions = false;
  for (std::uint32_t index = 0; index < registrations_.size(); ++index) {
    if (registrations_[index].armed_kinds.empty()) continue;
    has_subscriptions = true;
    if (!cancel_all_of(index)) break;
  }
  return has_subscriptions;
}

void uring_requests::restart() noexcept {
  examined_until_ = ring_.taken();
  changed_handles_.clear();
  for (std::uint32_t index = 0; index < registrations_.size(); ++index) {
    registration& entry = registrations_[index];
    entry.is_in_changed = false;
    handle* const target = handles()[index];
    if (target == nullptr) continue;
    entry.wanted_kinds = entry.armed_kinds = entry.cancelled_kinds = entry.ended_kinds = {};
    target->flags.insert(handle_flag::may_read);
    target->flags.insert(handle_flag::may_write);
    update_flags(*target);
    if (target->reading() || target->writing()) serve_later(*target);
  }
}

void uring_requests::discard_early_data() noexcept {
  for (std::uint32_t index = 0; index < registrations_.size(); ++index) {
    registration& entry = registrations_[index];
    entry.early_bytes.clear(buffers_);
    entry.early_error = 0;
    entry.has_early_connections = false;
  }
  connections_.clear();
}

// ---- completions

void uring_requests::serve_completion(const io_uring_cqe& completion, std::size_t& completions) {
  handle* const target = target_of(completion);
  if (target == nullptr) return discard_completion(completion);
  if (deliver_bytes(*target, completion)) [[likely]] {
    const auto count = static_cast<std::size_t>(completion.res);
    return hand_over(*target, *target->reader, result::of(count), completions);
  }
  if (deliver_connection(*target, completion)) {
    unique_fd connection_fd(completion.res);
    auto& acceptor = static_cast<accept_request&>(*target->reader);
    if (!fill_peer(acceptor, connection_fd.get())) return;
    return hand_over(*target, acceptor,
                     result::of(static_cast<std::size_t>(connection_fd.release())), completions);
  }
  record_for(*target, completion);
  const subscription kind = subscription_of(completion);
  if (!is_refusal(completion, kind)) return serve(*target, 0, completions);
  // The request ends with the error: another subscription would fail as well.
  request* const pending_request = kind == subscription::writable ? target->writer : target->reader;
  if (pending_request != nullptr) {
    hand_over(*target, *pending_request, result::failure(-completion.res), completions);
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
  entry.is_unconfirmed = false;
  if (left_bytes(completion)) note_unconfirmed(target);
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
    discard_completion(completion);
  }
}

void uring_requests::record_for(handle& target, const io_uring_cqe& completion) noexcept {
  registration& entry = registrations_[target.index];
  if (is_last(completion)) entry.end(subscription_of(completion));
  switch (subscription_of(completion)) {
    case subscription::readable:
    case subscription::writable:
      if (!entry.armed_kinds.has(subscription::receive)) entry.is_unconfirmed = false;
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
    case EINTR: break;  // the next call reports the error again, or the present state
    case EINVAL:
    case EOPNOTSUPP:
      entry.prefers_calls = true;
      entry.small_messages = 0;
      break;
    default: entry.early_error = static_cast<std::uint8_t>(-completion.res);
  }
}

void uring_requests::record_accepted(handle& target, const io_uring_cqe& completion) noexcept {
  if (completion.res < 0) return;  // the next accept4(2) reports the error again
  unsubscribe(target, subscription::accept);
  unique_fd connection_fd(completion.res);
  try {
    connections_.push_back({target.index, std::move(connection_fd)});
    registrations_[target.index].has_early_connections = true;
  } catch (...) {
    return;  // the connection is closed
  }
}

void uring_requests::discard_completion(const io_uring_cqe& completion) noexcept {
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
      received bytes = entry.early_bytes.pop(buffers_);
      const std::size_t count = bytes.size();
      lend_to(reader, std::move(bytes));
      return result::of(count);
    }
    case request_kind::read: {
      auto& read_operation = static_cast<read_request&>(reader);
      const std::size_t count = entry.early_bytes.read(buffers_, read_operation.rest);
      read_operation.rest = read_operation.rest.subspan(count);
      read_operation.done += count;
      if (read_operation.whole() && !read_operation.rest.empty()) return std::nullopt;
      return result::of(read_operation.done);
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
    default: return result::of(0);  // such a request reads no bytes
  }
}

// Returns the listener's oldest early connection whose peer is still there.
std::optional<result> uring_requests::accept_early(accept_request& acceptor) noexcept {
  const std::uint32_t listener = acceptor.target().index;
  const auto is_its = [listener](const early_connection& connection) {
    return connection.listener_index == listener;
  };
  std::optional<result> outcome;
  auto match = std::ranges::find_if(connections_, is_its);
  while (match != connections_.end() && !outcome) {
    unique_fd fd = std::move(match->fd);
    match = std::find_if(connections_.erase(match), connections_.end(), is_its);
    if (fill_peer(acceptor, fd.get())) outcome = result::of(static_cast<std::size_t>(fd.release()));
  }
  registrations_[listener].has_early_connections = match != connections_.end();
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

// Updates the handle's flags so that calls cannot overtake the kernel while it receives.
void uring_requests::update_flags(handle& target) noexcept {
  using enum handle_flag;
  const registration& entry = registrations_[target.index];
  auto& flags = target.flags;
  const bool receives =
      entry.armed_kinds.has_any(subscription_set(subscription::receive) | subscription::accept);
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

bool uring_requests::has_unconfirmed() noexcept {
  while (!unconfirmed_handles_.empty() &&
         !registrations_[unconfirmed_handles_.back()].is_unconfirmed) {
    registrations_[unconfirmed_handles_.back()].is_in_unconfirmed = false;
    unconfirmed_handles_.pop_back();
  }
  return !unconfirmed_handles_.empty();
}

void uring_requests::check_some_after_interruption() noexcept {
  for (std::size_t handles_left = checked_at_once; handles_left > 0 && unchecked_handles_ > 0;
       --handles_left, --unchecked_handles_) {
    last_checked_ = last_checked_ == 0 ? registrations_.size() - 1 : last_checked_ - 1;
    handle* const candidate = handles()[last_checked_];
    if (candidate != nullptr &&
        registrations_[last_checked_].armed_kinds.has(subscription::receive)) {
      note_unconfirmed(*candidate);
    }
  }
}

// A read stops at urgent data, and bytes after it are not reported. Most completions show urgent
// data, but not all (see events_of()). To read until nothing is left would cost each message a
// failed call; so a short read is checked only when nothing arrives for a while, and so is a
// receive that left bytes.
void uring_requests::retry_short_reads() noexcept {
  check_some_after_interruption();
  while (has_unconfirmed()) {
    const std::uint32_t index = unconfirmed_handles_.back();
    registrations_[index].is_unconfirmed = false;  // takes the handle off the list
    handle& target = *handles()[index];
    target.flags.erase(handle_flag::trusts_short_read);
    const int at_urgent_data = ::sockatmark(target.fd());  // negative if the socket does not tell
    if (at_urgent_data > 0) target.flags.insert(handle_flag::short_reads_mislead);
    if (registrations_[index].armed_kinds.has(subscription::receive)) {
      // When the subscription has ended, the reader is tried by calls, which pass the urgent data.
      if (at_urgent_data > 0) unsubscribe(target, subscription::receive);
      continue;
    }
    if (at_urgent_data != 0) target.flags.insert(handle_flag::may_read);
    if (target.reading() && target.flags.has(handle_flag::may_read)) serve_later(target);
  }
}

}  // namespace gyre::io::detail
