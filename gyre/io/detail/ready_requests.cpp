// SPDX-License-Identifier: Apache-2.0
#include <gyre/io/detail/ready_requests.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/signal_mask.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/detail/system_terminal.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <csignal>
#include <limits>

namespace gyre::io::detail {
namespace {

request*& slot_of(handle& target, const request& request) noexcept {
  return request.writes() ? target.writer : target.reader;
}

bool may_be_ready(const handle& target, direction side) noexcept {
  return target.flags.has(side == direction::write ? handle_flag::may_write
                                                   : handle_flag::may_read);
}

// Returns whether the descriptor is not open for the request's direction: it is then never reported
// as ready for the request.
bool waits_in_vain(const handle& target, const request& request) noexcept {
  const bool only_waits = request.kind() == request_kind::wait_readable ||
                          request.kind() == request_kind::wait_writable;
  return !only_waits && target.refuses(request.way());
}

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

std::size_t bytes_of(result outcome) noexcept { return outcome ? outcome.count() : 0; }

bool ends(const request& request, result outcome) noexcept {
  return !request.repeats() || !outcome || (request.receives() && outcome.count() == 0);
}

// ---- system calls

bool is_no_socket(const request& request) noexcept {
  return request.target().kind() == handle_kind::other;
}

std::size_t bytes_in(std::span<const iovec> pieces) noexcept {
  std::size_t sum = 0;
  for (const iovec& piece : pieces) sum += piece.iov_len;
  return sum;
}

// Makes a call again that failed with EAGAIN at the urgent mark. TCP does not pass urgent data
// while a signal is pending: such a read fails although bytes follow the mark, and nothing reports
// those bytes again. The signal is no longer pending when the call is repeated. If the urgent byte
// has not arrived yet, the repetition fails, too.
template <class Call>
result read_past_mark(const handle& source, Call call) noexcept {
  constexpr int max_tries = 16;
  for (int tries = 1;; ++tries) {
    const result outcome = retried(call);
    if (!outcome.would_block() || tries == max_tries || ::sockatmark(source.fd()) != 1) {
      return outcome;
    }
  }
}

template <class Call>
result call_to_read(const handle& source, Call call) noexcept {
  if (source.kind() == handle_kind::other) {
    const result outcome = retried(call);
    // EIO is how the kernel reports to a master that the last descriptor of its terminal was
    // closed.
    const bool is_end = outcome.error_number() == EIO && system::is_terminal_master(source.fd());
    return is_end ? result::of(0) : outcome;
  }
  const bool may_have_urgent_data = source.kind() == handle_kind::stream_socket &&
                                    source.flags.has(handle_flag::short_reads_mislead);
  return may_have_urgent_data ? read_past_mark(source, call) : retried(call);
}

result read_some(const handle& source, std::span<std::byte> bytes) noexcept {
  if (source.kind() == handle_kind::other) {
    return call_to_read(source, [&] { return ::read(source.fd(), bytes.data(), bytes.size()); });
  }
  return call_to_read(source, [&] { return ::recv(source.fd(), bytes.data(), bytes.size(), 0); });
}

result write_some(const request& request, std::span<const std::byte> bytes) noexcept {
  const int fd = request.target().fd();
  if (is_no_socket(request))
    return retried([&] { return ::write(fd, bytes.data(), bytes.size()); });
  return retried([&] { return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
}

result send_without_sigpipe(send_file_request& request, std::size_t count) noexcept {
  // sendfile(2) has no flag that suppresses SIGPIPE.
  const signal_mask without_sigpipe(SIG_BLOCK, SIGPIPE);
  const result outcome =
      system::send_file(request.target().fd(), request.file, request.offset, count);
  // SIGPIPE is also raised when the connection broke within the call, which then returns the bytes
  // that were sent before.
  if (!outcome || outcome.count() < count) without_sigpipe.discard_pending();
  return outcome;
}

std::size_t bytes_in(std::span<const mmsghdr> messages) noexcept {
  std::size_t sum = 0;
  for (const mmsghdr& message : messages) sum += message.msg_len;
  return sum;
}

// The first `limit` bytes of several pieces of memory: all pieces that fit completely, or a part of
// the first one.
class first_pieces {
 public:
  first_pieces(std::span<const iovec> pieces, std::size_t limit) noexcept : pieces_(pieces) {
    std::size_t count = 0;
    while (count < pieces.size() && pieces[count].iov_len <= limit)
      limit -= pieces[count++].iov_len;
    if (count == pieces.size()) return;
    if (count > 0) {
      pieces_ = pieces.first(count);
    } else {
      part_ = {pieces.front().iov_base, limit};
      pieces_ = {&part_, 1};
    }
  }
  first_pieces(const first_pieces&) = delete;

  std::span<const iovec> get() const noexcept { return pieces_; }

 private:
  std::span<const iovec> pieces_;
  iovec part_{};
};

result scatter(const request& request, std::span<const iovec> pieces) noexcept {
  const int fd = request.target().fd();
  return call_to_read(request.target(),
                      [&] { return ::readv(fd, pieces.data(), static_cast<int>(pieces.size())); });
}

result gather(const request& request, std::span<const iovec> pieces) noexcept {
  const int fd = request.target().fd();
  if (is_no_socket(request)) {
    return retried([&] { return ::writev(fd, pieces.data(), static_cast<int>(pieces.size())); });
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());  // sendmsg(2) only reads the pieces
  message.msg_iovlen = pieces.size();
  return retried([&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); });
}

// Errors of connections that ended before they were accepted (see accept(2)).
constexpr std::array connection_errors = {ECONNABORTED, EPROTO,    ENETDOWN,     ENETUNREACH,
                                          ENOPROTOOPT,  EHOSTDOWN, EHOSTUNREACH, ENONET};

bool is_connection_error(int error) noexcept {
  return std::ranges::find(connection_errors, error) != connection_errors.end();
}

result accept(accept_request& request) noexcept {
  // An error that persists after 64 attempts is not that of a connection, and is returned.
  for (int attempts = 64;; --attempts) {
    request.peer_size = sizeof request.peer;
    const result result_of_call = retried([&] {
      return ::accept4(request.target().fd(), reinterpret_cast<sockaddr*>(&request.peer),
                       &request.peer_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    });
    if (attempts == 0 || !is_connection_error(result_of_call.error_number())) return result_of_call;
  }
}

// Connects a socket. For a connect that had to wait, the second call returns its outcome.
result connect(const connect_request& request) noexcept {
  const result result_of_call =
      result::of_call(::connect(request.target().fd(), request.peer, request.peer_size));
  const int error = result_of_call.error_number();
  if (error == EISCONN) return result::of(0);
  if (error == EINPROGRESS || error == EALREADY || error == EINTR) return result::failure(EAGAIN);
  // The listener of a Unix socket has no room, and nothing reports when it has, so waiting is
  // impossible.
  return error == EAGAIN ? result::failure(ECONNREFUSED) : result_of_call;
}

result poll_for(const request& request, short events) noexcept {
  pollfd descriptor{request.target().fd(), events, 0};
  const result count = retried([&] { return ::poll(&descriptor, 1, 0); });
  if (!count) return count;
  return count.count() > 0 ? result::of(0) : result::failure(EAGAIN);
}

}  // namespace

ready_requests::ready_requests() noexcept {
  memory_.on_return(
      [](void* self) noexcept { static_cast<ready_requests*>(self)->retry_starved(); }, this);
}

void ready_requests::require_pollable(int fd) {
  struct ::stat status{};
  if (::fstat(fd, &status) != 0) gyre::detail::throw_errno("fstat");
  if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)) {
    gyre::detail::throw_system_error(EPERM, "a file is no stream: use gyre::io::file");
  }
}

void ready_requests::attach(handle& target) {
  assert(!target.attached() && "attached twice");
  queue_.reserve(handles_.size() + 1);
  target.index = handles_.next_index();
  target.flags = handle_flag::may_write;
  // A peer may have sent bytes before it was accepted. A connection that is closed after the
  // response then need not be watched, and watching costs more than a failed read.
  if (target.kind() == handle_kind::stream_socket) target.flags.insert(handle_flag::may_read);
  add(target);
  handles_.insert(target);
  set_attached(target, true);
}

void ready_requests::detach(handle& target) noexcept {
  if (!target.attached()) return;
  remove(target);
  if (target.flags.has(handle_flag::queued)) queue_.remove(target);
  if (visited_handle_ == &target) visited_handle_ = nullptr;
  handles_.erase(target);
  target.reader = target.writer = nullptr;
  target.flags.clear();
  target.queue_index = 0;
  target.unwatched = false;
  set_attached(target, false);
}

bool ready_requests::has_share_for(const request& request) const noexcept {
  const std::size_t left = bytes_left(request.way());
  if (request.kind() != request_kind::send_file) return left > 0;
  // The next visit sends the whole part. A few bytes that were sent before, as the head of a
  // response, do not delay it.
  const std::size_t part = static_cast<const send_file_request&>(request).next_part();
  return left > 0 && left + send_file_request::min_part >= part;
}

std::optional<result> ready_requests::start_on(handle& target, request& request) noexcept {
  if (!target.attached()) return result::failure(EBADF);
  io::request*& slot = slot_of(target, request);
  if (slot != nullptr) return result::failure(EINPROGRESS);
  slot = &request;
  const bool is_ready = may_be_ready(target, request.way());
  if (is_ready && (request.repeats() || at_once_ == 0 || !has_share_for(request))) {
    serve_later(target);
    return std::nullopt;
  }
  if (is_ready) {
    --at_once_;
    const result outcome = perform(target, request);
    if (!outcome.would_block()) {
      slot = nullptr;
      return outcome;
    }
  }
  if (waits_in_vain(target, request)) [[unlikely]] {
    slot = nullptr;
    return result::failure(EBADF);
  }
  if (const int error = wait_unless_ready(target, request.way()); error != 0) [[unlikely]] {
    if (request.repeats()) {  // the loop reports every outcome of a repeating request
      target.flags.insert(handle_flag::may_read);
      serve_later(target);
      return std::nullopt;
    }
    slot = nullptr;
    return result::failure(error);
  }
  return std::nullopt;
}

result ready_requests::attempt(request& request) noexcept {
  handle& target = request.target();
  if (!target.attached()) return result::failure(EBADF);
  if (slot_of(target, request) != nullptr) return result::failure(EINPROGRESS);
  result outcome = result::failure(EAGAIN);
  if (may_be_ready(target, request.way())) {
    // The request may move more than the rest of the share, but its bytes are counted.
    std::size_t& left_to_move = bytes_left(request.way());
    const std::size_t share_left = std::exchange(left_to_move, unlimited);
    outcome = perform(target, request);
    left_to_move = share_left - std::min(share_left, unlimited - left_to_move);
  }
  if (outcome.would_block()) {
    if (const int error = watch(target, request.way()); error != 0) return result::failure(error);
  }
  return outcome;
}

std::optional<result> ready_requests::cancel(request& request) noexcept {
  handle& target = request.target();
  if (target.reader == &request) target.reader = nullptr;
  if (target.writer == &request) target.writer = nullptr;
  return std::nullopt;
}

// Queries the kernel before the reports: bytes that move from the kernel into the reports between
// the two steps are then found in the reports.
bool ready_requests::has_arrivals(const handle& target) noexcept {
  return system::has_events(target.fd(), POLLIN | POLLRDHUP) || may_have_early(target);
}

void ready_requests::serve(handle& target, std::uint32_t events, std::size_t& completions) {
  note_events(target, events);
  if (target.flags.has(handle_flag::queued)) return;  // the handle waits for its turn
  if (!queue_.is_new(target)) return serve_later(target);
  serve_requests(target, queue_.share_of_new(), completions);
}

void ready_requests::hand_over(handle& target, request& request, result outcome,
                               std::size_t& completions) {
  begin_share(queue_.share_of_new());
  const std::size_t cost =
      fair_queue::cost_of_request + (request.receives() ? bytes_of(outcome) : 0);
  queue_.note_moved(cost);
  if (!target.flags.has(handle_flag::queued)) queue_.note_used(target, cost);
  report(target, request, outcome, completions);
}

void ready_requests::report(handle& target, request& request, result outcome,
                            std::size_t& completions) {
  if (ends(request, outcome)) slot_of(target, request) = nullptr;
  ++completions;
  complete_for(target, request, outcome);
  memory_.arrived().reset();
}

// Begins to wait for readiness, unless the handle may be ready: then another cause than readiness
// delays its request. Returns an error number, or 0.
int ready_requests::wait_unless_ready(handle& target, direction side) noexcept {
  return may_be_ready(target, side) ? 0 : wait_for(target, side);
}

void ready_requests::await_readiness(handle& target, request& request, std::size_t& completions) {
  const int error = wait_unless_ready(target, request.way());
  if (error != 0) [[unlikely]]
    report(target, request, result::failure(error), completions);
}

bool ready_requests::serve_waiting(handle* target, std::size_t share, std::size_t& completions) {
  if (target == nullptr) return false;
  target->flags.erase(handle_flag::queued);
  serve_requests(*target, share, completions);
  return true;
}

// Serves the requests of a handle. Readiness is not reported twice, so a function that throws must
// not leave the remaining requests unserved.
void ready_requests::serve_requests(handle& target, std::size_t share, std::size_t& completions) {
  struct visit {
    ready_requests& self;
    handle& target;
    bool is_done = false;
    ~visit() { self.end_visit(target, !is_done); }
  } this_visit{*this, target};
  visited_handle_ = &target;
  wants_more_ = false;
  begin_share(share);
  serve_writer(target, completions);
  if (visited_handle_ == &target) serve_reader(target, completions);
  this_visit.is_done = true;
}

void ready_requests::end_visit(handle& target, bool is_interrupted) noexcept {
  const std::size_t cost = cost_of_visit();
  queue_.note_moved(cost);
  if (std::exchange(visited_handle_, nullptr) != &target) return;
  if (wants_more_ || is_interrupted) {
    target.flags.insert(handle_flag::queued);
    queue_.push_old(target);
  } else {
    queue_.note_used(target, cost);
  }
}

void ready_requests::serve_writer(handle& target, std::size_t& completions) {
  io::request* const writer = target.writer;
  if (writer == nullptr) return;
  if (!target.flags.has(handle_flag::may_write))
    return await_readiness(target, *writer, completions);
  // A new handle that comes late in a turn has a smaller share. Its file waits for the round.
  if (share_ < queue_.share() && !has_share_for(*writer)) return serve_later(target);
  const result outcome = perform(target, *writer);
  if (outcome.would_block()) return await_readiness(target, *writer, completions);
  report(target, *writer, outcome, completions);
}

void ready_requests::serve_reader(handle& target, std::size_t& completions) {
  io::request* const reader = target.reader;
  if (reader == nullptr) return;
  for (int count = reader->receives() ? max_receives : max_accepts; count > 0; --count) {
    if (!target.flags.has(handle_flag::may_read))
      return await_readiness(target, *reader, completions);
    const result outcome = perform(target, *reader);
    if (outcome.would_block()) return await_readiness(target, *reader, completions);
    const bool is_last = ends(*reader, outcome);
    report(target, *reader, outcome, completions);
    if (is_last || visited_handle_ != &target || target.reader != reader) return;
    if (bytes_left(direction::read) == 0) break;
  }
  serve_later(target);
}

// Queues the handle for its next turn. The handle that is being visited is queued only after the
// visit.
void ready_requests::serve_later(handle& target) noexcept {
  if (target.flags.has(handle_flag::queued)) return;
  if (visited_handle_ == &target) {
    wants_more_ = true;
    return;
  }
  target.flags.insert(handle_flag::queued);
  queue_.push(target);
}

void ready_requests::retry_starved() noexcept {
  handles_.for_each([this](handle& target) {
    if (!target.flags.has(handle_flag::awaits_memory)) return;
    target.flags.erase(handle_flag::awaits_memory);
    serve_later(target);
  });
}

// ---- carrying a request out by system calls

result ready_requests::note_outcome(handle& target, handle_flag readiness, result outcome,
                                    bool is_exhausted) noexcept {
  if (outcome.would_block() || is_exhausted) target.flags.erase(readiness);
  return outcome;
}

result ready_requests::note_read(handle& target, result outcome, std::size_t size) noexcept {
  const bool short_reads_tell = target.kind() == handle_kind::stream_socket &&
                                !target.flags.has(handle_flag::short_reads_mislead);
  const bool is_exhausted =
      outcome && outcome.count() > 0 && outcome.count() < size && short_reads_tell;
  if (outcome) spend_bytes(direction::read, outcome.count());
  target.flags.erase(handle_flag::trusts_short_read);
  if (is_exhausted) target.flags.insert(handle_flag::trusts_short_read);
  return note_outcome(target, handle_flag::may_read, outcome, is_exhausted);
}

result ready_requests::note_write(handle& target, result outcome, std::size_t size) noexcept {
  if (outcome) spend_bytes(direction::write, outcome.count());
  return note_outcome(target, handle_flag::may_write, outcome, outcome && outcome.count() < size);
}

// Makes the calls of a request. After EAGAIN the request is tried again when its handle is
// reported, or in the handle's next turn.
result ready_requests::perform(handle& target, request& request) noexcept {
  using enum handle_flag;
  ++request_count_;
  if (target.flags.has(kernel_receives) && !request.writes()) {
    const result outcome = take_early(target, request);
    // The kernel no longer receives for this handle, and no call has been tried since.
    if (outcome.would_block() && target.flags.has(may_read)) serve_later(target);
    return outcome;
  }
  switch (request.kind()) {
    case request_kind::receive:
    case request_kind::receive_transient:
    case request_kind::receive_shared: return receive(target, request);
    case request_kind::read: return transfer(static_cast<read_request&>(request), may_read);
    case request_kind::write: return transfer(static_cast<write_request&>(request), may_write);
    case request_kind::scatter: {
      const auto& scatter_read = static_cast<scatter_request&>(request);
      const first_pieces part(scatter_read.pieces, bytes_left(direction::read));
      return note_read(target, scatter(scatter_read, part.get()), bytes_in(part.get()));
    }
    case request_kind::gather: {
      const auto& gather_write = static_cast<gather_request&>(request);
      const first_pieces part(gather_write.pieces, bytes_left(direction::write));
      return note_write(target, gather(gather_write, part.get()), bytes_in(part.get()));
    }
    case request_kind::receive_message: {
      auto& message = *static_cast<receive_message_request&>(request).message;
      const result outcome =
          call_to_read(target, [&] { return ::recvmsg(target.fd(), &message, MSG_CMSG_CLOEXEC); });
      if (outcome) spend_bytes(direction::read, outcome.count());
      return note_outcome(target, may_read, outcome);
    }
    case request_kind::send_message: {
      const auto& message = *static_cast<send_message_request&>(request).message;
      const std::span<const iovec> pieces(message.msg_iov, message.msg_iovlen);
      return note_write(target,
                        retried([&] { return ::sendmsg(target.fd(), &message, MSG_NOSIGNAL); }),
                        bytes_in(pieces));
    }
    case request_kind::receive_messages: {
      const std::span<mmsghdr> messages = static_cast<receive_messages_request&>(request).messages;
      const result outcome = retried([&] {
        return ::recvmmsg(target.fd(), messages.data(), static_cast<unsigned>(messages.size()),
                          MSG_DONTWAIT | MSG_CMSG_CLOEXEC, nullptr);
      });
      if (outcome) spend_bytes(direction::read, bytes_in(messages.first(outcome.count())));
      return note_outcome(target, may_read, outcome, outcome && outcome.count() < messages.size());
    }
    case request_kind::send_messages: {
      const std::span<mmsghdr> messages = static_cast<send_messages_request&>(request).messages;
      const result outcome = retried([&] {
        return ::sendmmsg(target.fd(), messages.data(), static_cast<unsigned>(messages.size()),
                          MSG_NOSIGNAL);
      });
      if (outcome) spend_bytes(direction::write, bytes_in(messages.first(outcome.count())));
      // A shorter count than requested can also mean that one of them failed; the next call reports
      // the error.
      return note_outcome(target, may_write, outcome);
    }
    case request_kind::send_file:
      return send_file(target, static_cast<send_file_request&>(request));
    case request_kind::accept: {
      const result outcome = accept(static_cast<accept_request&>(request));
      // accept4(2) makes a socket before it looks for a connection: a call that finds none takes
      // ten times as long as poll(2).
      return note_outcome(target, may_read, outcome,
                          outcome && poll_for(request, POLLIN).would_block());
    }
    case request_kind::connect: {
      const result outcome = connect(static_cast<connect_request&>(request));
      // A socket reports a hang-up before it is connected; later only the peer can cause one.
      if (outcome.would_block()) target.flags.erase(short_reads_mislead);
      return note_outcome(target, may_write, outcome);
    }
    case request_kind::wait_readable:
      return note_outcome(target, may_read, poll_for(request, POLLIN));
    case request_kind::wait_writable:
      return note_outcome(target, may_write, poll_for(request, POLLOUT));
  }
  return result::failure(EINVAL);
}

result ready_requests::receive(handle& source, request& request) noexcept {
  received& data = data_of(request);
  data.reset();
  std::span<std::byte> room = memory_.room();
  if (room.empty()) {
    if (!memory_.lent()) return result::failure(ENOMEM);
    source.flags.insert(handle_flag::awaits_memory);
    return result::failure(EAGAIN);
  }
  room = room.first(std::min({room.size(), bytes_left(direction::read), max_size_of(request)}));
  const result outcome = note_read(source, read_some(source, room), room.size());
  if (outcome && outcome.count() > 0) {
    last_receive_ = outcome.count();
    data = memory_.lend(outcome.count());
  }
  return outcome;
}

// Sends a part of a file. A short count alone does not tell that the sink is full: the file may end
// there, or a signal, or work that io_uring has for the thread, has interrupted the call.
result ready_requests::send_file(handle& sink, send_file_request& request) noexcept {
  const std::size_t part = request.next_part();
  std::size_t sent_bytes = 0;
  for (int round = 0; round < max_rounds && sent_bytes < part; ++round) {
    result outcome = result::failure(EAGAIN);
    if (round == 0 || !poll_for(request, POLLOUT).would_block()) {
      outcome = send_without_sigpipe(request, part - sent_bytes);
    }
    note_outcome(sink, handle_flag::may_write, outcome);
    if (!outcome || outcome.count() == 0) {
      if (sent_bytes == 0) return outcome;
      break;
    }
    spend_beyond_share(outcome.count());
    request.unsent_bytes -= outcome.count();
    sent_bytes += outcome.count();
  }
  return result::of(sent_bytes);
}

// Moves a request's bytes: once, or, for a whole buffer, until all are moved, the handle would
// block, or its share is used up.
template <class Request>
result ready_requests::transfer(Request& request, handle_flag readiness) noexcept {
  handle& target = request.target();
  for (int round = 0; round < max_rounds; ++round) {
    const std::size_t limit = std::min(bytes_left(request.way()), max_bytes);
    const auto bytes = request.rest.first(std::min(request.rest.size(), limit));
    result outcome = result::of(0);
    if constexpr (std::is_same_v<Request, read_request>) {
      outcome = note_read(target, read_some(target, bytes), bytes.size());
    } else {
      outcome = note_write(target, write_some(request, bytes), bytes.size());
    }
    if (!outcome) return outcome;
    request.done += outcome.count();
    request.rest = request.rest.subspan(outcome.count());
    const bool is_at_end = readiness == handle_flag::may_read && outcome.count() == 0;
    if (!request.whole() || request.rest.empty() || is_at_end) return result::of(request.done);
    if (!target.flags.has(readiness)) return result::failure(EAGAIN);
    if (bytes_left(request.way()) == 0) break;
  }
  serve_later(target);
  return result::failure(EAGAIN);
}

}  // namespace gyre::io::detail
