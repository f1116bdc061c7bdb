// SPDX-License-Identifier: Apache-2.0
#include <gyre/testing/detail/scripted_backend.hpp>

#include <gyre/base/error.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/testing/virtual_time_loop.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::testing::detail {
namespace {

const io::result would_block = io::result::failure(EAGAIN);

io::request*& slot_of(io::handle& target, const io::request& request) noexcept {
  return request.writes() ? target.writer : target.reader;
}

}  // namespace

unique_fd scripted_connection::open() {
  if (peer_socket_) throw std::logic_error("scripted_peer: it is connected already");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    gyre::detail::throw_errno("socketpair");
  }
  unique_fd fd(ends[0]);
  peer_socket_ = unique_fd(ends[1]);
  fd_ = fd.get();
  backend_.add(*this);
  continue_script();
  return fd;
}

void scripted_connection::close() noexcept {
  for (timer_operation* const each :
       {static_cast<timer_operation*>(&pause_), static_cast<timer_operation*>(&write_delay_),
        static_cast<timer_operation*>(&service_)}) {
    loop_.cancel_timer(*each);
  }
  backend_.remove(*this);
  handle = nullptr;
}

void scripted_connection::add(action step) {
  script_.push_back(std::move(step));
  continue_script();
}

bool scripted_connection::has_seen_end() const noexcept {
  char byte = 0;
  return peer_socket_ && ::recv(peer_socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void scripted_connection::start_timer(timer_operation& op,
                                      std::chrono::nanoseconds delay) noexcept {
  loop_.start_timer(op, loop_.deadline_after(delay));
}

void scripted_connection::serve_soon() noexcept { start_timer(service_, {}); }

// Performs the peer's actions up to the first that must wait.
void scripted_connection::continue_script() {
  if (!peer_socket_) return;
  while (!is_pausing_ && !script_.empty()) {
    action& step = script_.front();
    if (const auto* const waits = std::get_if<pause>(&step)) {
      is_pausing_ = true;
      start_timer(pause_, waits->duration);
      return;
    }
    if (const auto* const expectation = std::get_if<expected>(&step)) {
      const std::size_t match = received_bytes_.find(expectation->text, search_begin_);
      if (match == std::string::npos) {
        // The next search includes a partial match, which a later write may complete.
        const std::size_t overlap = std::min(received_bytes_.size(), expectation->text.size());
        search_begin_ = std::max(search_begin_, received_bytes_.size() - overlap);
        return;
      }
      search_begin_ = match + expectation->text.size();
    } else {
      arrivals_.push_back(std::move(step));
      serve_soon();
    }
    script_.pop_front();
  }
}

void scripted_connection::end_pause() {
  is_pausing_ = false;
  script_.pop_front();
  continue_script();
}

void scripted_connection::end_write_delay() {
  is_write_delayed_ = false;
  write_script_.pop_front();
  serve();
}

void scripted_connection::serve() {
  // Keeps the connection alive: a callback may close the stream, or destroy the peer.
  const auto self = shared_from_this();
  while (handle != nullptr && handle->reader != nullptr && serve_one(handle->reader)) {
  }
  while (handle != nullptr && handle->writer != nullptr && serve_one(handle->writer)) {
  }
}

bool scripted_connection::serve_one(io::request*& slot) {
  io::request& target = *slot;
  const io::result outcome = perform(target, backend_.memory());
  if (outcome.would_block()) return false;
  const bool has_ended = target.receives() && outcome && outcome.count() == 0;
  if (!target.repeats() || !outcome || has_ended) slot = nullptr;
  io::detail::complete_for(*handle, target, outcome);
  backend_.memory().arrived().reset();
  return true;
}

io::result scripted_connection::perform(io::request& request, io::receive_memory& memory) noexcept {
  switch (request.kind()) {
    case io::request_kind::receive:
    case io::request_kind::receive_transient:
    case io::request_kind::receive_shared: return receive(request, memory);
    case io::request_kind::read: {
      auto& read = static_cast<io::read_request&>(request);
      return read.whole() ? read_whole(read) : take_arrival(read.rest);
    }
    case io::request_kind::scatter:
      return scatter(static_cast<io::scatter_request&>(request).pieces);
    case io::request_kind::wait_readable:
      return arrivals_.empty() ? would_block : io::result::of(0);
    case io::request_kind::write: return write_all(static_cast<io::write_request&>(request));
    case io::request_kind::gather: return write(static_cast<io::gather_request&>(request).pieces);
    case io::request_kind::send_file:
      return send_file(static_cast<io::send_file_request&>(request));
    case io::request_kind::wait_writable: return begin_write() ? io::result::of(0) : would_block;
    default: return io::result::failure(EOPNOTSUPP);
  }
}

// Returns bytes of at most one piece. A failure is returned once, the end of the stream every time.
io::result scripted_connection::take_arrival(std::span<std::byte> buffer) noexcept {
  if (buffer.empty()) return io::result::of(0);
  if (arrivals_.empty()) return would_block;
  action& first = arrivals_.front();
  if (auto* const piece = std::get_if<sent>(&first)) {
    const std::string_view rest = std::string_view(piece->bytes).substr(piece->read_count);
    const std::size_t count = rest.copy(reinterpret_cast<char*>(buffer.data()), buffer.size());
    piece->read_count += count;
    if (count == rest.size()) arrivals_.pop_front();
    return io::result::of(count);
  }
  if (const auto* const scripted_failure = std::get_if<failure>(&first)) {
    const int error = scripted_failure->error;
    arrivals_.pop_front();
    return io::result::failure(error);
  }
  return io::result::of(0);
}

io::result scripted_connection::read_whole(io::read_request& request) noexcept {
  while (!request.rest.empty()) {
    const io::result part = take_arrival(request.rest);
    if (!part) return part;
    if (part.count() == 0) break;
    request.rest = request.rest.subspan(part.count());
    request.done += part.count();
  }
  return io::result::of(request.done);
}

io::result scripted_connection::receive(io::request& request, io::receive_memory& memory) noexcept {
  if (arrivals_.empty()) return would_block;
  const std::span<std::byte> room = memory.room();
  if (room.empty()) return io::result::failure(ENOBUFS);
  const io::result outcome = take_arrival(room);
  if (!outcome || outcome.count() == 0) return outcome;
  io::received& data = request.kind() == io::request_kind::receive
                           ? static_cast<io::receive_request&>(request).data
                           : memory.arrived();
  data = memory.lend(outcome.count());
  return outcome;
}

io::result scripted_connection::scatter(std::span<const iovec> pieces) noexcept {
  for (const iovec& piece : pieces) {
    if (piece.iov_len == 0) continue;
    return take_arrival({static_cast<std::byte*>(piece.iov_base), piece.iov_len});
  }
  return io::result::of(0);
}

bool scripted_connection::begin_write() noexcept {
  if (write_script_.empty()) return true;
  const auto* const delay = std::get_if<pause>(&write_script_.front());
  if (delay == nullptr) return true;
  if (!std::exchange(is_write_delayed_, true)) start_timer(write_delay_, delay->duration);
  return false;
}

io::result scripted_connection::write(std::span<const iovec> pieces) noexcept {
  if (!begin_write()) return would_block;
  std::size_t max_count = received_bytes_.max_size();
  if (!write_script_.empty()) {
    const write_action step = write_script_.front();
    write_script_.pop_front();
    if (const auto* const scripted_failure = std::get_if<failure>(&step)) {
      return io::result::failure(scripted_failure->error);
    }
    max_count = std::get<short_write>(step).max_bytes;
  }
  std::size_t count = 0;
  try {
    for (const iovec& piece : pieces) {
      const std::size_t part = std::min(piece.iov_len, max_count - count);
      received_bytes_.append(static_cast<const char*>(piece.iov_base), part);
      count += part;
    }
    continue_script();
  } catch (const std::bad_alloc&) {
    return io::result::failure(ENOMEM);
  }
  return io::result::of(count);
}

io::result scripted_connection::write_all(io::write_request& request) noexcept {
  while (!request.rest.empty()) {
    const iovec rest{const_cast<std::byte*>(request.rest.data()), request.rest.size()};
    const io::result part = write({&rest, 1});
    if (!part || !request.whole()) return part;
    request.rest = request.rest.subspan(part.count());
    request.done += part.count();
  }
  return io::result::of(request.done);
}

io::result scripted_connection::send_file(io::send_file_request& request) noexcept {
  if (!begin_write()) return would_block;
  std::array<std::byte, 4096> bytes;
  const std::span<std::byte> room =
      std::span(bytes).first(std::min(request.next_part(), bytes.size()));
  const io::result count =
      io::detail::system::read_at(request.file, room, static_cast<std::uint64_t>(request.offset));
  if (!count || count.count() == 0) return count;
  const iovec piece{bytes.data(), count.count()};
  const io::result outcome = write({&piece, 1});
  if (outcome) {
    request.offset += static_cast<::off_t>(outcome.count());
    request.unsent_bytes -= outcome.count();
  }
  return outcome;
}

scripted_backend& scripted_backend::find_or_create(virtual_poller& time) {
  if (time.io() == nullptr) time.set_io(std::make_shared<scripted_backend>());
  return static_cast<scripted_backend&>(*time.io());
}

scripted_connection* scripted_backend::connection_of(const io::handle& handle) const noexcept {
  const auto position = std::ranges::find(connections_, &handle, &scripted_connection::handle);
  return position == connections_.end() ? nullptr : *position;
}

void scripted_backend::attach(io::handle& handle) {
  for (scripted_connection* const connection : connections_) {
    if (connection->fd() != handle.fd() || connection->handle != nullptr) continue;
    connection->handle = &handle;
    set_attached(handle, true);
    return;
  }
  throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                          "a loop in virtual time serves only streams of scripted_peer");
}

void scripted_backend::detach(io::handle& handle) noexcept {
  if (scripted_connection* const connection = connection_of(handle)) {
    connection->handle = nullptr;
    remove(*connection);
  }
  handle.reader = nullptr;
  handle.writer = nullptr;
  set_attached(handle, false);
}

std::optional<io::result> scripted_backend::start_on(io::handle& source,
                                                     io::request& request) noexcept {
  scripted_connection* const target = connection_of(source);
  if (target == nullptr) return io::result::failure(EBADF);
  io::request*& slot = slot_of(source, request);
  if (slot != nullptr) return io::result::failure(EINPROGRESS);
  if (request.repeats()) {
    target->serve_soon();
  } else if (const io::result outcome = target->perform(request, memory_); !outcome.would_block()) {
    return outcome;
  }
  slot = &request;
  return std::nullopt;
}

io::result scripted_backend::attempt(io::request& request) noexcept {
  scripted_connection* const target = connection_of(request.target());
  return target == nullptr ? io::result::failure(EBADF) : target->perform(request, memory_);
}

bool scripted_backend::has_arrivals(const io::handle& target) noexcept {
  const scripted_connection* const connection = connection_of(target);
  return connection == nullptr || connection->has_arrivals();
}

std::optional<io::result> scripted_backend::cancel(io::request& request) noexcept {
  if (request.under_way()) slot_of(request.target(), request) = nullptr;
  return std::nullopt;
}

}  // namespace gyre::testing::detail
