// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/uring_requests.hpp>

#include <gyre/io/uring_poller.hpp>

#include <sys/socket.h>

#include <cerrno>

namespace gyre::io::detail {
namespace {

// The `user_data` of a completion without interest.
constexpr std::uint64_t ignored = 0;

// Any data wakes a socket's waiters with POLLIN, POLLPRI and POLLRDBAND, and a completion repeats
// that. Where two wake-ups made one completion, as with urgent data, it has the socket's own state:
// POLLPRI for urgent data, POLLRDBAND never.
constexpr unsigned readable_events = POLLIN | POLLRDHUP | POLLPRI | POLLRDBAND;

}  // namespace

uring_requests::uring_requests(uring_poller& owner, uring& ring, const uring_features& features)
    : owner_(owner), ring_(ring), features_(features) {
  // A ring's last completions can be had before it is closed only by kernels that have both (6.0).
  if (!features_.multishot_receive) features_.multishot_accept = false;
}

void uring_requests::provide_buffers() noexcept {
  has_buffers_ = features_.multishot_receive && buffers_.provide_to(ring_.raw()) == 0;
}

file_service* uring_requests::files() noexcept { return owner_.files(); }

// ---- handles

void uring_requests::add(handle& watched) {
  const std::size_t count = watched.index + std::size_t{1};
  registrations_.grow_to(count);
  for (std::vector<std::uint32_t>* const each : {&changed_, &unconfirmed_}) {
    if (each->capacity() < count) each->reserve(2 * count);
  }
  // Requests tell of a descriptor that is no socket, or none at all.
  if (watched.kind() == handle_kind::other) refuse_file(watched.fd());
}

void uring_requests::remove(handle& watched) noexcept {
  registration& entry = registrations_[watched.index];
  entry.wanted.clear();
  entry.is_unconfirmed = false;
  // Accepted connections end with their listener, and not only when their turn comes.
  const bool accepts = entry.armed.has(subscription::accept);
  await_end_of(watched.index);
  entry.early_bytes.clear(buffers_);
  if (entry.early_connections) {
    std::erase_if(connections_, [&](const auto& each) { return each.listener == watched.index; });
  }
  const auto generation = static_cast<std::uint16_t>(entry.generation + 1);
  // From now on completions are known by their generation as those of a closed handle; when
  // generations begin anew, there must be none left of the handle that had this one before.
  if (accepts || generation == 0) discard_completions_of(watched.index);
  registration next;
  next.generation = generation;
  next.in_changed = entry.in_changed;
  next.in_unconfirmed = entry.in_unconfirmed;
  entry = next;
  discard_oldest_stale();
}

// The kernel holds the file of each subscription, so that closing the descriptor would end nothing.
void uring_requests::await_end_of(std::uint32_t index) noexcept {
  constexpr int most_attempts = 1000;
  const registration& entry = registrations_[index];
  if (!entry.armed.empty()) examine_completions();
  for (int attempt = 0; entry.has_live(); ++attempt) {
    if (!ring_.usable_here() || attempt == most_attempts) return owner_.abandon_ring();
    cancel_all_of(index);
    ring_.enter();
    examine_completions();
    if (entry.has_live() && ring_.full() && !ring_.set_aside()) return owner_.abandon_ring();
  }
}

// Notes which subscriptions of all handles have ended. Looks at each completion once, however many
// handles are closed before it is taken.
void uring_requests::examine_completions() noexcept {
  const std::uint64_t oldest = ring_.taken();
  const std::uint64_t end = oldest + ring_.ready();
  examined_until_ = std::max(examined_until_, oldest);
  examined_ += end - examined_until_;
  for (; examined_until_ != end; ++examined_until_) {
    const io_uring_cqe& completion = ring_.at(static_cast<unsigned>(examined_until_ - oldest));
    if (tag_of(completion) != subscription_id::tag || !is_last(completion)) continue;
    if (handle* const target = target_of(completion)) {
      registrations_[target->index].ended.insert(subscription_of(completion));
    }
  }
}

// Looks at all completions: for handles that are rarely closed.
void uring_requests::discard_completions_of(std::uint32_t index) noexcept {
  examined_ += ring_.ready();
  for (unsigned each = 0; each < ring_.ready(); ++each) {
    io_uring_cqe& completion = ring_.at(each);
    if (tag_of(completion) != subscription_id::tag || detail::id_of(completion).index != index)
      continue;
    discard(completion);
    completion.user_data = ignored;
  }
}

// Makes room for the completions of others where many handles are closed.
void uring_requests::discard_oldest_stale() noexcept {
  while (ring_.ready() > 0) {
    const io_uring_cqe& oldest = ring_.at(0);
    const bool own = tag_of(oldest) == subscription_id::tag;
    if (own ? target_of(oldest) != nullptr : oldest.user_data != ignored) return;
    const io_uring_cqe stale = ring_.take();
    if (own) discard(stale);
  }
}

// ---- subscribing

void uring_requests::subscribe_to(handle& waiting, direction way) noexcept {
  registration& entry = registrations_[waiting.index];
  if (way == direction::write) return subscribe(waiting, subscription::writable);
  const request& reader = *waiting.reader;
  if (can_accept(reader)) return subscribe(waiting, subscription::accept);
  if (prefers_to_receive(waiting, entry)) {
    unsubscribe(waiting, subscription::readable);
    return subscribe(waiting, subscription::receive);
  }
  // Bytes that the kernel receives in between come first; its last completion tells, too.
  if (entry.armed.has_any(subscription_set(subscription::receive) | subscription::accept)) {
    unsubscribe(waiting, subscription::receive);
    return unsubscribe(waiting, subscription::accept);
  }
  subscribe(waiting, subscription::readable);
  if (waiting.flags.has(handle_flag::trusts_short_read)) doubt(waiting);
}

// Has the handle's read tried again if nothing comes for a while.
void uring_requests::doubt(handle& waiting) noexcept {
  registration& entry = registrations_[waiting.index];
  entry.is_unconfirmed = true;
  if (entry.in_unconfirmed) return;
  entry.in_unconfirmed = true;
  unconfirmed_.push_back(waiting.index);
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
    if (entry.small_messages == many_small) entry.prefers_calls = false;
  }
  // The kernel takes a buffer before it looks for bytes: without one it would refuse at once, for
  // ever.
  return !entry.prefers_calls && !buffers_.exhausted();
}

void uring_requests::subscribe(handle& target, subscription which) noexcept {
  registration& entry = registrations_[target.index];
  entry.wanted.insert(which);
  if (!entry.armed.has(which)) note_change(target);
}

void uring_requests::unsubscribe(handle& target, subscription which) noexcept {
  registration& entry = registrations_[target.index];
  entry.wanted.erase(which);
  if (entry.armed.has(which)) note_change(target);
}

void uring_requests::note_change(handle& target) noexcept {
  registration& entry = registrations_[target.index];
  if (entry.in_changed) return;
  entry.in_changed = true;
  changed_.push_back(target.index);
}

bool uring_requests::submit_changes() noexcept {
  while (!changed_.empty()) {
    const std::uint32_t index = changed_.back();
    if (handles()[index] != nullptr && !submit_changes_of(index)) return false;
    registrations_[index].in_changed = false;
    changed_.pop_back();
  }
  return true;
}

bool uring_requests::submit_changes_of(std::uint32_t index) noexcept {
  handle& target = *handles()[index];
  registration& entry = registrations_[index];
  for (const subscription each : all_subscriptions) {
    if (entry.wanted.has(each) && !is_waited_for(target, each)) entry.wanted.erase(each);
    const bool wanted = entry.wanted.has(each);
    const bool armed = entry.armed.has(each);
    if (wanted && !armed && !submit(target, each)) return false;
    if (!wanted && armed && !entry.cancelled.has(each) && !submit_cancel(index, each)) return false;
  }
  return true;
}

bool uring_requests::is_waited_for(const handle& target, subscription which) const noexcept {
  const request* const reader = target.reader;
  switch (which) {
    case subscription::readable: return reader != nullptr;
    case subscription::writable: return target.writer != nullptr;
    case subscription::receive: return reader != nullptr && can_receive(target, *reader);
    case subscription::accept: return reader != nullptr && can_accept(*reader);
  }
  return false;
}

bool uring_requests::submit(handle& target, subscription which) noexcept {
  io_uring_sqe* const next = ring_.next_submission();
  if (next == nullptr) return false;
  const int fd = target.fd();
  switch (which) {
    case subscription::readable: io_uring_prep_poll_multishot(next, fd, readable_events); break;
    // Multishot here, too: a peer that has ended its direction is reported again and again.
    case subscription::writable: io_uring_prep_poll_multishot(next, fd, POLLOUT); break;
    case subscription::receive:
      io_uring_prep_recv_multishot(next, fd, nullptr, 0, 0);
      next->flags |= IOSQE_BUFFER_SELECT;
      next->buf_group = buffer_ring::group;
      break;
    case subscription::accept:
      io_uring_prep_multishot_accept(next, fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      break;
  }
  next->user_data = std::uint64_t{id_of(target.index, which)};
  registrations_[target.index].armed.insert(which);
  update_flags(target);
  return true;
}

bool uring_requests::submit_cancel(std::uint32_t index, subscription which) noexcept {
  io_uring_sqe* const next = ring_.next_submission();
  if (next == nullptr) return false;
  io_uring_prep_cancel64(next, std::uint64_t{id_of(index, which)}, 0);
  next->user_data = ignored;
  registrations_[index].cancelled.insert(which);
  return true;
}

bool uring_requests::cancel_all_of(std::uint32_t index) noexcept {
  const registration& entry = registrations_[index];
  const subscription_set live = entry.armed - (entry.cancelled | entry.ended);
  for (const subscription each : all_subscriptions) {
    if (live.has(each) && !submit_cancel(index, each)) return false;
  }
  return true;
}

bool uring_requests::cancel_all() noexcept {
  bool any = false;
  for (std::uint32_t index = 0; index < registrations_.size(); ++index) {
    if (registrations_[index].armed.empty()) continue;
    any = true;
    if (!cancel_all_of(index)) break;
  }
  return any;
}

void uring_requests::restart() noexcept {
  examined_until_ = ring_.taken();
  changed_.clear();
  for (std::uint32_t index = 0; index < registrations_.size(); ++index) {
    registration& entry = registrations_[index];
    entry.in_changed = false;
    handle* const each = handles()[index];
    if (each == nullptr) continue;
    entry.wanted = entry.armed = entry.cancelled = entry.ended = {};
    each->flags.insert(handle_flag::may_read);
    each->flags.insert(handle_flag::may_write);
    update_flags(*each);
    if (each->reading() || each->writing()) serve_later(*each);
  }
}

void uring_requests::discard_early_data() noexcept {
  for (std::uint32_t index = 0; index < registrations_.size(); ++index) {
    registration& each = registrations_[index];
    each.early_bytes.clear(buffers_);
    each.early_error = 0;
    each.early_connections = false;
  }
  connections_.clear();
}

}  // namespace gyre::io::detail
