// SPDX-License-Identifier: Apache-2.0
// How a connection sends: at once if it can, and what the kernel does not take waits in a queue.
#include <gyre/base/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/connection_extra.hpp>
#include <gyre/net/detail/connection_group.hpp>
#include <gyre/net/detail/last_words.hpp>
#include <gyre/net/detail/message_with_fds.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace gyre::net {
namespace {

// The program's error, whether they go at once or wait, and whatever has become of the connection.
void check_descriptors(std::span<const int> fds) {
  for (const int each : fds) {
    if (::fcntl(each, F_GETFD) < 0) gyre::detail::throw_errno("tcp_connection::send_fds");
  }
}

// Fewer if there are no descriptors left. Throws std::bad_alloc.
std::vector<unique_fd> copies_of(std::span<const int> fds) {
  std::vector<unique_fd> copies;
  copies.reserve(fds.size());
  for (const int each : fds) {
    unique_fd copy(::fcntl(each, F_DUPFD_CLOEXEC, 0));
    if (!copy) break;
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace

std::size_t tcp_connection::pending_output() const noexcept {
  const detail::connection_backlog* const own = backlog();
  if (own == nullptr) return 0;
  const detail::attached_output* const attached = own->attached.get();
  return own->output.size() + (attached == nullptr ? 0 : attached->cost()) +
         (layered_ ? pending_sealed() : 0);
}

// The bytes of `request` that the kernel took; after a failure the connection can be sent on no
// more. Always tried at once: the program decides how much it sends in one turn.
std::size_t tcp_connection::send_now(io::request& request) noexcept {
  const io::result result = io().attempt(request);
  if (result.would_block()) return 0;
  if (!result) {
    sending_failed(result.error());
    return 0;
  }
  count_sent(result.count());
  return result.count();
}

void tcp_connection::count_sent(std::size_t bytes) noexcept {
  bytes_sent_ += bytes;
  group_->count_sent(bytes);
}

bool tcp_connection::note_all_sent() noexcept {
  if (group_->handlers().write_complete) schedule(call::write_complete);
  return true;
}

bool tcp_connection::send(std::span<const std::byte> bytes) {
  if (!can_send()) return false;
  if (bytes.empty()) return true;
  if (layered_) return send_layered({&bytes, 1});
  if (pending_output() == 0) [[likely]] {
    io::write_request writing(*this, bytes, nullptr);
    const std::size_t taken = send_now(writing);
    if (taken == bytes.size()) [[likely]]
      return note_all_sent();
    if (!can_send()) return false;
    bytes = bytes.subspan(taken);
  }
  return queue_output(bytes.size(), [bytes](io::output_queue& output) { output.append(bytes); });
}

bool tcp_connection::send(io::buffer&& bytes) {
  if (!can_send()) return false;
  if (bytes.empty()) return true;
  if (layered_) return send(std::exchange(bytes, io::buffer()).bytes());
  if (pending_output() == 0) {
    io::write_request writing(*this, bytes.bytes(), nullptr);
    bytes.consume(send_now(writing));
    if (bytes.empty()) {
      bytes.clear();
      return note_all_sent();
    }
    if (!can_send()) return false;
  }
  return queue_output(bytes.size(),
                      [&bytes](io::output_queue& output) { output.append(std::move(bytes)); });
}

bool tcp_connection::send(std::span<const std::span<const std::byte>> pieces) {
  if (!can_send()) return false;
  std::size_t left = 0;
  for (const auto piece : pieces) left += piece.size();
  if (left == 0) return true;
  if (layered_) return send_layered(pieces);
  std::size_t taken = 0;
  if (pending_output() == 0) {
    std::array<iovec, 64> vectors;
    const std::size_t count = std::min(pieces.size(), vectors.size());
    for (std::size_t i = 0; i < count; ++i) {
      // The kernel only reads it.
      vectors[i] = {const_cast<std::byte*>(pieces[i].data()), pieces[i].size()};
    }
    io::gather_request writing(*this, std::span(vectors).first(count), nullptr);
    taken = send_now(writing);
    if (!can_send()) return false;
    left -= taken;
    if (left == 0) return note_all_sent();
  }
  return queue_output(left, [pieces, taken](io::output_queue& output) mutable {
    for (const auto piece : pieces) {
      const std::size_t skipped = std::min(taken, piece.size());
      taken -= skipped;
      if (skipped < piece.size()) output.append(piece.subspan(skipped));
    }
  });
}

detail::attached_output& tcp_connection::attached() {
  auto& attached = make_backlog().attached;
  if (attached == nullptr) {
    io::handle& self = *this;  // make_unique() may not see the base
    attached = std::make_unique<detail::attached_output>(self, &on_done<&tcp_connection::written>);
  }
  return *attached;
}

// Alone, they are not refused: a small limit would refuse all, though the kernel may have room.
std::size_t tcp_connection::descriptor_cost_of(std::size_t count) const noexcept {
  return pending_output() == 0 ? 0 : count * detail::attached_output::descriptor_cost;
}

// All promised bytes must be there.
void tcp_connection::check_file(int file, std::uint64_t offset, std::uint64_t count) {
  struct ::stat status{};
  if (::fstat(file, &status) != 0) gyre::detail::throw_errno("tcp_connection::send_file");
  if (!S_ISREG(status.st_mode)) {
    gyre::detail::throw_system_error(EINVAL, "tcp_connection::send_file: not a regular file");
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (offset > size || count > size - offset) {
    throw std::system_error(io::errc::unexpected_end, "tcp_connection::send_file");
  }
}

bool tcp_connection::send_file(unique_fd file, std::uint64_t offset, std::uint64_t count) {
  check_file(file.get(), offset, count);
  if (!can_send()) return false;
  if (count == 0) return true;
  return queue_output(descriptor_cost_of(1), [&](io::output_queue& output) {
    attached().add({.file = std::move(file), .offset = static_cast<::off_t>(offset), .left = count},
                   output.size());
  });
}

bool tcp_connection::send_fds(std::span<const std::byte> bytes, std::span<const int> fds) {
  if (bytes.empty() || fds.size() > detail::message_with_fds::most_fds || peer_is_ip() ||
      layered_) {
    gyre::detail::throw_system_error(EINVAL, "tcp_connection::send_fds");
  }
  check_descriptors(fds);
  if (!can_send()) return false;
  if (pending_output() == 0) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    detail::message_with_fds message({&piece, 1});
    message.attach(fds);
    io::send_message_request sending(*this, message.header, nullptr);
    const std::size_t taken = send_now(sending);
    if (taken == bytes.size()) return note_all_sent();
    if (!can_send()) return false;
    bytes = bytes.subspan(taken);
    if (taken > 0) fds = {};
  }
  std::vector<unique_fd> copies = copies_of(fds);
  if (copies.size() < fds.size()) return refuse({errno, std::system_category()});
  const std::size_t cost = descriptor_cost_of(copies.size());
  return queue_output(bytes.size() + cost, [&](io::output_queue& output) {
    if (!copies.empty()) attached().add({.fds = std::move(copies)}, output.size());
    output.append(bytes);
  });
}

bool tcp_connection::refuse(std::error_code why) noexcept {
  abort(why);
  return false;
}

// Queues `more` bytes. Where that is too much, or memory is short, the connection ends, as a gap in
// its stream would be wrong.
template <class Append>
bool tcp_connection::queue_output(std::size_t more, Append&& append) noexcept {
  const connection_options& limits = group_->options();
  if (more > limits.output_limit || pending_output() > limits.output_limit - more) {
    return refuse(io::errc::output_limit);
  }
  try {
    append(make_backlog().output);
  } catch (const std::bad_alloc&) {
    return refuse(detail::no_memory());
  }
  if (!handle::writing()) flush();
  if (!can_send()) return false;
  if (!update_held_bytes()) return refuse(io::errc::memory_limit);
  watch_output();
  if (!above_high_water_ && pending_output() >= limits.high_water) {
    above_high_water_ = true;
    if (group_->pauses_at_high_water()) pause(pauser::output);
    schedule_water_mark(call::high_water, call::low_water);
  }
  return true;
}

bool tcp_connection::queue_layered(std::span<const std::byte> sealed,
                                   std::span<const std::byte> plain) {
  return queue_output(sealed.size() + plain.size(), [&](io::output_queue& output) {
    if (!sealed.empty()) layered().sealed.append(sealed);
    output.append(plain);
  });
}

void tcp_connection::watch_output() noexcept {
  detail::connection_backlog& own = *backlog();
  const duration timeout = group_->options().write_timeout;
  if (timeout.count() == 0 || own.write_timer.linked() || pending_output() == 0) return;
  own.write_timer.watch(timeout, bytes_taken_by_peer());
  start_timer(own.write_timer);
}

void tcp_connection::write_timer_expired() {
  detail::connection_backlog& own = *backlog();
  const bool is_limited = phase_ == phase::open || limited_when_sent_;
  if (!is_limited || pending_output() == 0) return;
  if (own.write_timer.stalled(bytes_taken_by_peer())) {
    return abort(io::errc::write_timeout);
  }
  start_timer(own.write_timer);
}

// Writes what waits, as long as the kernel takes it at once.
void tcp_connection::flush() noexcept {
  if (layered_) return flush_layered();
  detail::connection_backlog& waiting = *backlog();
  while (pending_output() > 0) {
    if (waiting.attached != nullptr && waiting.attached->is_due()) {
      if (!send_attachment()) return;
      continue;
    }
    waiting.writing.pieces = next_output();
    const std::optional<io::result> result = io().start(waiting.writing);
    if (!result) return;
    if (!*result) return sending_failed(result->error());
    consume_output(result->count());
  }
  all_is_sent();
}

void tcp_connection::all_is_sent() noexcept {
  if (phase_ == phase::flushing) return linger();
  if (shutdown_requested_) end_sending();
  if (phase_ == phase::open) static_cast<void>(note_all_sent());
}

// The output up to the next attachment.
std::span<iovec> tcp_connection::next_output() noexcept {
  detail::connection_backlog& waiting = *backlog();
  const std::span<iovec> pieces =
      std::span(waiting.pieces).first(waiting.output.gather(waiting.pieces));
  if (waiting.attached == nullptr) return pieces;
  return detail::first_bytes(pieces, waiting.attached->next_bytes());
}

// By a request that writes, or that waits for room (with a count of 0).
void tcp_connection::written(io::result result) {
  if (!result) return sending_failed(result.error());
  layered_ ? consume_sealed(result.count()) : consume_output(result.count());
  flush();
}

void tcp_connection::consume_output(std::size_t bytes) noexcept {
  count_sent(bytes);
  detail::connection_backlog& own = *backlog();
  own.output.consume(bytes);
  if (own.attached != nullptr) own.attached->consume(bytes);
  on_output_shrunk();
}

void tcp_connection::on_output_shrunk() noexcept {
  update_held_bytes();
  if (above_high_water_ && pending_output() <= group_->low_water()) {
    above_high_water_ = false;
    resume(pauser::output);
    schedule_water_mark(call::low_water, call::high_water);
  }
}

// The two alternate: a due call of the other is out of date, and cancels out with this one.
void tcp_connection::schedule_water_mark(call due, call other) noexcept {
  // One that nobody hears must not cancel out the other.
  if (due == call::high_water && !group_->handlers().high_water) return;
  if (due_.has(other)) {
    due_.erase(other);
  } else {
    schedule(due);
  }
}

void tcp_connection::drop_output() noexcept {
  detail::connection_backlog* const own = backlog();
  if (own == nullptr) return;
  own->output.clear();
  if (own->attached != nullptr) own->attached->clear();
  if (layered_ && !handle::writing()) layered().sealed = io::buffer();
  if (layered_) layered().replies = io::buffer();
  update_held_bytes();
}

// The peer may have answered before it reset the connection, or closed it without having read all:
// the answer is still there, and reading ends the connection. Where it does not (of a Unix socket
// only the other direction may be shut), the timer does.
void tcp_connection::sending_failed(std::error_code why) noexcept {
  resume(pauser::output);
  if (layered_ && phase_ == phase::open && reading_paused() && !peer_done_) {
    return end(detail::last_words(handle::fd(), *layered().protocol, why), ending::in_order);
  }
  if (phase_ != phase::open || reading_paused() || peer_done_) return end(why, ending::in_order);
  shutdown_requested_ = fin_sent_ = true;
  // Nothing but reading goes on.
  due_.erase(calls(call::write_complete) | call::high_water | call::low_water);
  drop_output();
  try {
    const steady_time give_up = loop().deadline_after(group_->options().close_timeout);
    loop().start_timer(make_backlog().timer, give_up);
    extra().failure = why;
    failed_ = true;
  } catch (const std::bad_alloc&) {
    end(why, ending::in_order);
  }
}

}  // namespace gyre::net
