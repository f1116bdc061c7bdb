// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/ready_requests.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace gyre::io::detail {
namespace {

template <class Call>
result retried(Call call) noexcept {
  for (;;) {
    const result made = result::of_call(call());
    if (made.error_number() != EINTR) return made;
  }
}

bool is_file(const request& asked) noexcept { return asked.target().kind() == handle_kind::file; }

std::size_t bytes_in(std::span<const iovec> pieces) noexcept {
  std::size_t sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  return sum;
}

// While a signal is pending, TCP does not pass urgent data: a read at its mark would block, whatever is
// behind it, and nothing reports that again. The signal is gone when the call is repeated; but where the
// urgent byte itself has yet to come, it is in vain.
template <class Call>
result read_past_mark(const handle& from, Call call) noexcept {
  constexpr int most_tries = 4;
  for (int tries = 1;; ++tries) {
    const result made = retried(call);
    if (!made.would_block() || tries == most_tries || ::sockatmark(from.fd()) != 1) return made;
  }
}

result write_some(const request& asked, std::span<const std::byte> from) noexcept {
  const int fd = asked.target().fd();
  if (is_file(asked)) return retried([&] { return ::write(fd, from.data(), from.size()); });
  return retried([&] { return ::send(fd, from.data(), from.size(), MSG_NOSIGNAL); });
}

result gather(const gather_request& asked) noexcept {
  const int fd = asked.target().fd();
  if (is_file(asked)) {
    return retried(
        [&] { return ::writev(fd, asked.pieces.data(), static_cast<int>(asked.pieces.size())); });
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(asked.pieces.data());  // sendmsg only reads it
  message.msg_iovlen = asked.pieces.size();
  return retried([&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); });
}

// Errors of a connection that ended before it was accepted, accept(2) says.
bool is_of_the_connection(int error) noexcept {
  switch (error) {
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET: return true;
    default: return false;
  }
}

// Where its handle has it while it is under way.
request*& place_of(const request& asked) noexcept {
  return asked.writes() ? asked.target().writer : asked.target().reader;
}

// Whether a request that completes so is over.
bool ends(const request& asked, result made) noexcept {
  return !asked.repeats() || !made || (asked.kind() == request_kind::receive && made.count() == 0);
}

result accept(accept_request& asked) noexcept {
  // Should such an error not be of a connection after all, it is told in the end.
  for (int left = 64;; --left) {
    asked.peer_size = sizeof asked.peer;
    const result accepted = retried([&] {
      return ::accept4(asked.target().fd(), reinterpret_cast<sockaddr*>(&asked.peer),
                       &asked.peer_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    });
    if (left == 0 || !is_of_the_connection(accepted.error_number())) return accepted;
  }
}

// To call it again tells how a connect that had to wait has ended.
result connect(const connect_request& asked) noexcept {
  const result connected =
      result::of_call(::connect(asked.target().fd(), asked.peer, asked.peer_size));
  switch (connected.error_number()) {
    case EISCONN: return result::of(0);
    case EINPROGRESS:
    case EALREADY:
    case EINTR: return result::failure(EAGAIN);
    case EAGAIN:  // a Unix socket whose listener has no room: nothing would tell when it has
      return result::failure(ECONNREFUSED);
    default: return connected;
  }
}

result wait_for(const request& asked, short events) noexcept {
  pollfd ready{asked.target().fd(), events, 0};
  const result found = retried([&] { return ::poll(&ready, 1, 0); });
  if (!found) return found;
  return found.count() > 0 ? result::of(0) : result::failure(EAGAIN);
}

}  // namespace

ready_requests::ready_requests() noexcept {
  memory_.on_return(
      [](void* self) noexcept { static_cast<ready_requests*>(self)->memory_returned(); }, this);
}

void ready_requests::attach(handle& served) {
  assert(!served.attached() && "attached twice");
  const std::size_t room = handles_.size() + 1 + vacated_;
  if (again_.capacity() < room) again_.reserve(2 * room);
  if (serving_.capacity() < room) serving_.reserve(2 * room);
  if (free_.empty()) {
    free_.reserve(2 * room);
    handles_.push_back(nullptr);
    free_.push_back(static_cast<std::uint32_t>(handles_.size() - 1));
  }
  served.index = free_.back();
  served.state = may_write;
  begin(served);
  free_.pop_back();
  handles_[served.index] = &served;
  set_attached(served, true);
}

void ready_requests::detach(handle& served) noexcept {
  if (!served.attached()) return;
  end(served);
  if (served.state & queued) {
    if (served.place < again_.size() && again_[served.place] == &served) {
      again_[served.place] = nullptr;
      ++vacated_;
    } else {
      serving_[served.place] = nullptr;
    }
  }
  if (current_ == &served) current_ = nullptr;
  handles_[served.index] = nullptr;
  free_.push_back(served.index);
  served.reader = served.writer = nullptr;
  served.state = 0;
  set_attached(served, false);
}

std::optional<result> ready_requests::start(request& asked) noexcept {
  handle& target = asked.target();
  if (!target.attached()) return result::failure(EBADF);
  request*& place = place_of(asked);
  if (place != nullptr) return result::failure(EINPROGRESS);
  place = &asked;
  const bool may_be_ready = (target.state & (asked.writes() ? may_write : may_read)) != 0;
  if (may_be_ready && (asked.repeats() || at_once_ == 0 || bytes_left_ == 0)) {
    serve_later(target);
    return std::nullopt;
  }
  if (may_be_ready) {
    --at_once_;
    const result made = perform(asked);
    if (!made.would_block()) {
      place = nullptr;
      return made;
    }
  }
  wait_unless_ready(target, asked.writes());
  return std::nullopt;
}

result ready_requests::attempt(request& asked) noexcept {
  handle& target = asked.target();
  if (!target.attached()) return result::failure(EBADF);
  if (place_of(asked) != nullptr) return result::failure(EINPROGRESS);
  const bool may_be_ready = (target.state & (asked.writes() ? may_write : may_read)) != 0;
  return may_be_ready ? perform(asked) : result::failure(EAGAIN);
}

std::optional<result> ready_requests::cancel(request& asked) noexcept {
  handle& target = asked.target();
  if (target.reader == &asked) target.reader = nullptr;
  if (target.writer == &asked) target.writer = nullptr;
  return std::nullopt;
}

result ready_requests::read_diverted(request&) noexcept { return result::failure(EINVAL); }

void ready_requests::note_events(handle& ready, std::uint32_t events) noexcept {
  const std::uint32_t ended = POLLERR | POLLHUP;
  const std::uint32_t not_plain = POLLRDHUP | POLLPRI | ended;
  if (events & not_plain) ready.state |= short_reads_lie;
  if (events & (POLLIN | not_plain)) ready.state |= may_read;
  if (events & (POLLOUT | ended)) ready.state |= may_write;
}

void ready_requests::serve(handle& ready, std::uint32_t events, std::size_t& completed) {
  note_events(ready, events);
  // Else it has its turn as one that is pending, or has had it.
  if ((ready.state & queued) == 0) go_on(ready, completed);
}

void ready_requests::hand_over(request& asked, result made, std::size_t& completed) {
  begin_share();
  report(asked, made, completed);
}

void ready_requests::report(request& asked, result made, std::size_t& completed) {
  if (ends(asked, made)) place_of(asked) = nullptr;
  ++completed;
  asked.complete(made);
}

// What it waits for is reported, unless it may be ready and something else keeps it.
void ready_requests::wait_unless_ready(handle& of, bool writing) noexcept {
  if ((of.state & (writing ? may_write : may_read)) == 0) wait_for_readiness(of, writing);
}

void ready_requests::begin_pending() noexcept {
  if (served_ < serving_.size()) return;
  serving_.clear();
  served_ = 0;
  std::swap(serving_, again_);
  vacated_ = 0;
}

void ready_requests::serve_one_pending(std::size_t& completed) {
  handle* const next = serving_[served_++];  // before the call: it may throw
  if (next == nullptr) return;
  next->state = static_cast<std::uint8_t>(next->state & ~queued);
  go_on(*next, completed);
}

// What was reported is not reported again, so nothing may be left undone when a function throws.
void ready_requests::go_on(handle& ready, std::size_t& completed) {
  struct leave {
    ready_requests& self;
    handle& ready;
    bool done = false;
    ~leave() {
      if (!done && self.current_ == &ready) self.serve_later(ready);
      self.current_ = nullptr;
    }
  } leaving{*this, ready};
  current_ = &ready;
  begin_share();
  go_on_writing(ready, completed);
  if (current_ == &ready) go_on_reading(ready, completed);
  leaving.done = true;
}

void ready_requests::go_on_writing(handle& ready, std::size_t& completed) {
  request* const asked = ready.writer;
  if (asked == nullptr) return;
  if ((ready.state & may_write) == 0) return wait_for_readiness(ready, true);
  const result made = perform(*asked);
  if (made.would_block()) return wait_unless_ready(ready, true);
  report(*asked, made, completed);
}

void ready_requests::go_on_reading(handle& ready, std::size_t& completed) {
  request* const asked = ready.reader;
  if (asked == nullptr) return;
  const bool receives = asked->kind() == request_kind::receive;
  for (int left = receives ? most_receives : most_accepts; left > 0; --left) {
    if ((ready.state & may_read) == 0) return wait_for_readiness(ready, false);
    const result made = perform(*asked);
    if (made.would_block()) return wait_unless_ready(ready, false);
    const bool ended = ends(*asked, made);
    report(*asked, made, completed);
    if (ended || current_ != &ready || ready.reader != asked) return;
    if (bytes_left_ == 0) break;
  }
  serve_later(ready);
}

void ready_requests::serve_later(handle& ready) noexcept {
  if (ready.state & queued) return;
  ready.state |= queued;
  ready.place = static_cast<std::uint32_t>(again_.size());
  again_.push_back(&ready);
}

void ready_requests::memory_returned() noexcept {
  for (handle* each : handles_) {
    if (each == nullptr || (each->state & starved) == 0) continue;
    each->state = static_cast<std::uint8_t>(each->state & ~starved);
    serve_later(*each);
  }
}

result ready_requests::note(handle& target, std::uint8_t direction, result made,
                            bool exhausted) noexcept {
  if (made.would_block() || exhausted) {
    target.state = static_cast<std::uint8_t>(target.state & ~direction);
  }
  return made;
}

template <class Call>
result ready_requests::call_to_read(const handle& from, Call call) noexcept {
  const bool may_have_urgent_data =
      from.kind() == handle_kind::stream_socket && (from.state & short_reads_lie) != 0;
  return may_have_urgent_data ? read_past_mark(from, call) : retried(call);
}

result ready_requests::read_some(const request& asked, std::span<std::byte> to) noexcept {
  const int fd = asked.target().fd();
  if (is_file(asked)) return retried([&] { return ::read(fd, to.data(), to.size()); });
  return call_to_read(asked.target(), [&] { return ::recv(fd, to.data(), to.size(), 0); });
}

// Of a read that may have brought less than `wanted`.
result ready_requests::note_read(handle& target, result made, std::size_t wanted) noexcept {
  const bool short_reads_tell =
      target.kind() == handle_kind::stream_socket && (target.state & short_reads_lie) == 0;
  const bool exhausted = made && made.count() > 0 && made.count() < wanted && short_reads_tell;
  spend(made);
  target.state &= static_cast<std::uint8_t>(~read_short);
  if (exhausted) target.state |= read_short;
  return note(target, may_read, made, exhausted);
}

result ready_requests::note_write(handle& target, result made, std::size_t wanted) noexcept {
  spend(made);
  return note(target, may_write, made, made && made.count() < wanted);
}

// Tries it. Would block: it goes on when its handle is reported, or in its next turn.
result ready_requests::perform(request& asked) noexcept {
  handle& target = asked.target();
  if ((target.state & diverted) && !asked.writes()) return read_diverted(asked);
  switch (asked.kind()) {
    case request_kind::receive: return receive(static_cast<receive_request&>(asked));
    case request_kind::read: return read(static_cast<read_request&>(asked));
    case request_kind::write: return write(static_cast<write_request&>(asked));
    case request_kind::scatter: {
      const auto& reading = static_cast<scatter_request&>(asked);
      const auto count = static_cast<int>(reading.pieces.size());
      return note_read(
          target,
          call_to_read(target, [&] { return ::readv(target.fd(), reading.pieces.data(), count); }),
          bytes_in(reading.pieces));
    }
    case request_kind::gather: {
      const auto& writing = static_cast<gather_request&>(asked);
      return note_write(target, gather(writing), bytes_in(writing.pieces));
    }
    case request_kind::receive_message: {
      auto& message = *static_cast<receive_message_request&>(asked).message;
      return note(
          target, may_read,
          call_to_read(target, [&] { return ::recvmsg(target.fd(), &message, MSG_CMSG_CLOEXEC); }),
          false);
    }
    case request_kind::send_message: {
      const auto& message = *static_cast<send_message_request&>(asked).message;
      const std::span<const iovec> pieces(message.msg_iov, message.msg_iovlen);
      return note_write(target,
                        retried([&] { return ::sendmsg(target.fd(), &message, MSG_NOSIGNAL); }),
                        bytes_in(pieces));
    }
    case request_kind::receive_messages: {
      const std::span<mmsghdr> messages = static_cast<receive_messages_request&>(asked).messages;
      const result made = retried([&] {
        return ::recvmmsg(target.fd(), messages.data(), static_cast<unsigned>(messages.size()),
                          MSG_DONTWAIT | MSG_CMSG_CLOEXEC, nullptr);
      });
      return note(target, may_read, made, made && made.count() < messages.size());
    }
    case request_kind::send_messages: {
      const std::span<mmsghdr> messages = static_cast<send_messages_request&>(asked).messages;
      // Fewer than asked for can also mean that one of them failed: the next call tells.
      return note(target, may_write, retried([&] {
                    return ::sendmmsg(target.fd(), messages.data(),
                                      static_cast<unsigned>(messages.size()), MSG_NOSIGNAL);
                  }),
                  false);
    }
    case request_kind::accept:
      return note(target, may_read, accept(static_cast<accept_request&>(asked)), false);
    case request_kind::connect: {
      const result made = connect(static_cast<connect_request&>(asked));
      // Until now it was reported as closed. From now on that is the peer's doing.
      if (made.would_block()) {
        target.state = static_cast<std::uint8_t>(target.state & ~short_reads_lie);
      }
      return note(target, may_write, made, false);
    }
    case request_kind::wait_readable: return note(target, may_read, wait_for(asked, POLLIN), false);
    case request_kind::wait_writable:
      return note(target, may_write, wait_for(asked, POLLOUT), false);
  }
  return result::failure(EINVAL);
}

result ready_requests::receive(receive_request& asked) noexcept {
  handle& from = asked.target();
  asked.data.reset();
  const std::span<std::byte> room = memory_.room();
  if (room.empty()) {
    if (!memory_.lent()) return result::failure(ENOMEM);
    from.state |= starved;
    return result::failure(EAGAIN);
  }
  const result made = note_read(from, read_some(asked, room), room.size());
  if (made && made.count() > 0) {
    last_receive_ = made.count();
    asked.data = memory_.lend(made.count());
  }
  return made;
}

result ready_requests::read(read_request& asked) noexcept {
  handle& from = asked.target();
  for (int round = 0; round < most_rounds; ++round) {
    const auto to = asked.rest.first(std::min(asked.rest.size(), most_bytes));
    const result made = note_read(from, read_some(asked, to), to.size());
    if (!made) return made;
    asked.done += made.count();
    asked.rest = asked.rest.subspan(made.count());
    if (!asked.whole() || asked.rest.empty() || made.count() == 0) return result::of(asked.done);
    if ((from.state & may_read) == 0) return result::failure(EAGAIN);
    if (bytes_left_ == 0) break;
  }
  serve_later(from);
  return result::failure(EAGAIN);
}

result ready_requests::write(write_request& asked) noexcept {
  handle& to = asked.target();
  for (int round = 0; round < most_rounds; ++round) {
    const auto from = asked.rest.first(std::min(asked.rest.size(), most_bytes));
    const result made = note_write(to, write_some(asked, from), from.size());
    if (!made) return made;
    asked.done += made.count();
    asked.rest = asked.rest.subspan(made.count());
    if (!asked.whole() || asked.rest.empty()) return result::of(asked.done);
    if ((to.state & may_write) == 0) return result::failure(EAGAIN);
    if (bytes_left_ == 0) break;
  }
  serve_later(to);
  return result::failure(EAGAIN);
}

}  // namespace gyre::io::detail
