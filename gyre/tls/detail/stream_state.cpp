// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/stream_state.hpp>

#include <gyre/base/error.hpp>
#include <gyre/exec/detail/heavy_turn.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/tls/error.hpp>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

namespace gyre::tls::detail {
namespace {

constexpr std::size_t most_sent_at_once = std::size_t{256} << 10;
constexpr std::size_t most_of_file_at_once = std::size_t{64} << 10;
constexpr std::size_t record_size = std::size_t{16} << 10;
// Answers that a peer can cause without reading them.
constexpr std::size_t most_unsent = std::size_t{64} << 10;

}  // namespace

void stream_state::send_now() noexcept {
  if (is_sending || output.empty() || !inner.is_open()) return;
  const ssize_t sent =
      ::send(inner.fd(), output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) output.consume(static_cast<std::size_t>(sent));
  if (!output.empty()) return;
  left_by_writes = 0;
  scratch_buffer::give_back(std::exchange(output, io::buffer()));
}

void stream_state::throw_failure(const char* operation) {
  send_now();
  const failure& why = machine.why();
  std::string text = operation;
  if (!machine.host().empty()) text.append(" (").append(machine.host()).append(")");
  if (!why.text.empty()) text.append(": ").append(why.text);
  throw std::system_error(why.code, text);
}

task<> stream_state::more_is_read(const char* operation) {
  is_awaited_ = true;
  co_await more_read_.wait();
  if (!inner.is_open()) throw std::system_error(io::errc::closed, operation);
}

// The waiter is resumed by a post, when the one who reads has gone on or ended.
void stream_state::tell_of_reading() noexcept {
  if (std::exchange(is_awaited_, false)) more_read_.set();
}

bool stream_state::is_quiet() noexcept try {
  if (!inner.is_open() || is_reading || writer_reads) return false;
  reading_lock lock(*this, "gyre::tls::tls_stream: is_quiet");
  const auto has_nothing = [this] {
    const engine::status now = machine.peek();
    send_now();
    return now == engine::status::wants_input && !machine.awaits_rest();
  };
  if (!has_nothing()) return false;
  io::receive_memory& memory = io::backend_of(inner.loop()).memory();
  const std::span<std::byte> room = memory.room();
  if (room.empty()) return false;
  const ssize_t count = ::recv(inner.fd(), room.data(), record_size, MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN;
  if (count == 0) return false;
  lock.take(memory.lend(static_cast<std::size_t>(count)), "");
  return has_nothing() && inner.is_quiet();
} catch (const std::exception&) {
  return false;
}

void stream_state::close() noexcept {
  if (!inner.is_open()) return;
  if (!is_writing && output.empty()) {
    machine.close_notify();
    send_now();
  }
  inner.close();
}

direction_lock::direction_lock(stream_state& state, bool& in_use, const char* operation)
    : in_use_(in_use) {
  if (!state.inner.is_open()) throw std::system_error(io::errc::not_open, operation);
  if (in_use) throw std::system_error(io::errc::busy, operation);
  in_use_ = true;
}

reading_lock::~reading_lock() {
  try {
    give_back();
  } catch (const std::exception&) {
    state_.inner.close();  // bytes are lost
  }
  state_.tell_of_reading();
}

void reading_lock::give_back() {
  const std::span<const std::byte> rest = state_.machine.unread();
  if (!rest.empty() && came_.empty()) return;  // they are in the stash already
  if (state_.stash.capacity() > 0) state_.stash = io::buffer();
  if (!rest.empty()) {
    state_.stash.append(rest);
    state_.machine.feed(state_.stash.bytes());
  }
  came_.reset();
}

void reading_lock::prepare_to_receive(const char* operation) {
  if (state_.output.size() > most_unsent + state_.left_by_writes) {
    throw std::system_error(errc::bad_record, operation);
  }
  give_back();
  state_.tell_of_reading();
}

void reading_lock::take(io::received came, const char* operation) {
  if (came.empty()) throw std::system_error(state_.machine.end_of_bytes(), operation);
  came_ = std::move(came);
  state_.machine.feed(came_.bytes());
}

sending_lock::~sending_lock() {
  state_.is_sending = false;
  if (bytes.empty()) {
    scratch_buffer::give_back(std::move(bytes));
    return;
  }
  state_.left_by_writes = bytes.size();
  try {
    bytes.append(state_.output.bytes());
    state_.output = std::move(bytes);
  } catch (const std::exception&) {
    state_.inner.close();  // a gap would be wrong
  }
}

task<std::size_t> read(state_ptr state, std::span<std::byte> room, bool whole) {
  static constexpr const char* name = "gyre::tls::tls_stream: read";
  reading_lock lock(*state, name);
  while (state->writer_reads) [[unlikely]]
    co_await state->more_is_read(name);
  std::size_t done = 0;
  while (done < room.size()) {
    std::size_t count = 0;
    const engine::status now = state->machine.read(room.subspan(done), count);
    done += count;
    state->send_now();
    if (count > 0 && !whole) break;
    if (now == engine::status::failed) state->throw_failure(name);
    if (now == engine::status::ended) {
      if (whole) throw std::system_error(io::errc::unexpected_end, name);
      break;
    }
    if (now == engine::status::done) continue;
    io::received came = co_await lock.receive(name);
    lock.take(std::move(came), name);
  }
  co_return done;
}

task<io::received> receive(state_ptr state) {
  static constexpr const char* name = "gyre::tls::tls_stream: receive";
  reading_lock lock(*state, name);
  while (state->writer_reads) [[unlikely]]
    co_await state->more_is_read(name);
  io::receive_memory& memory = io::backend_of(state->inner.loop()).memory();
  for (;;) {
    const std::span<std::byte> room = memory.room();
    if (room.empty()) gyre::detail::throw_system_error(ENOMEM, name);
    std::size_t count = 0;
    const engine::status now =
        state->machine.read(room.first(std::min(room.size(), most_sent_at_once)), count);
    if (count > 0) {
      io::received bytes = memory.lend(count);
      state->send_now();
      co_return bytes;
    }
    state->send_now();
    if (now == engine::status::failed) state->throw_failure(name);
    if (now == engine::status::ended) co_return io::received();
    io::received came = co_await lock.receive(name);
    lock.take(std::move(came), name);
  }
}

task<> wait_readable(state_ptr state) {
  static constexpr const char* name = "gyre::tls::tls_stream: wait_readable";
  reading_lock lock(*state, name);
  while (state->writer_reads) [[unlikely]]
    co_await state->more_is_read(name);
  for (;;) {
    const engine::status now = state->machine.peek();
    state->send_now();
    if (now != engine::status::wants_input) co_return;
    io::received came = co_await lock.receive(name);
    if (came.empty()) co_return;
    lock.take(std::move(came), name);
  }
}

task<std::size_t> read_until(state_ptr state, io::buffer& buffer, std::string_view delimiter,
                             std::size_t limit) {
  static constexpr const char* name = "gyre::tls::tls_stream: read_until";
  reading_lock lock(*state, name);
  while (state->writer_reads) [[unlikely]]
    co_await state->more_is_read(name);
  std::size_t searched = 0;
  for (;;) {
    const std::size_t overlap = delimiter.empty() ? 0 : delimiter.size() - 1;
    const std::size_t found = buffer.find(delimiter, searched > overlap ? searched - overlap : 0);
    searched = buffer.size();
    if (found != io::input::npos && found + delimiter.size() <= limit) {
      co_return found + delimiter.size();
    }
    if (found != io::input::npos || searched >= limit) {
      throw std::system_error(io::errc::limit_exceeded, name);
    }
    std::size_t count = 0;
    const engine::status now = state->machine.read(buffer.prepare(record_size), count);
    buffer.commit(count);
    state->send_now();
    if (count > 0) continue;
    if (now == engine::status::failed) state->throw_failure(name);
    if (now == engine::status::ended) throw std::system_error(io::errc::unexpected_end, name);
    io::received came = co_await lock.receive(name);
    lock.take(std::move(came), name);
  }
}

namespace {

// Reads the rest of a message of the peer, before which nothing can be written; or has the reader
// do it, if there is one.
task<> read_rest(state_ptr state, const char* name) {
  while (!state->machine.may_write()) {
    if (state->is_reading) {
      co_await state->more_is_read(name);
      continue;
    }
    reading_lock lock(*state, state->writer_reads, name);
    io::received came = co_await lock.receive(name);
    lock.take(std::move(came), name);
    if (state->machine.peek() == engine::status::failed) state->throw_failure(name);
  }
}

}  // namespace

namespace {

bool says_that_peer_has_gone(const std::error_code& error) noexcept {
  return error == std::errc::connection_reset || error == std::errc::broken_pipe;
}

// Reads what a peer that has gone has sent before: an alert says more than a connection reset.
task<> read_last_words(state_ptr state, const char* name) {
  try {
    while (state->is_reading) co_await state->more_is_read(name);  // the reader meets the alert
    reading_lock lock(*state, state->writer_reads, name);
    while (state->machine.peek() == engine::status::wants_input) {
      io::received came = co_await lock.receive(name);
      lock.take(std::move(came), name);
    }
  } catch (const std::exception&) {
    co_return;  // it has said nothing
  }
}

}  // namespace

task<std::size_t> write(state_ptr state, std::span<const std::byte> bytes, bool whole,
                        io::received lent) {
  static constexpr const char* name = "gyre::tls::tls_stream: write";
  const direction_lock lock(*state, state->is_writing, name);
  if (state->machine.closed() && !bytes.empty()) gyre::detail::throw_system_error(EPIPE, name);
  io::buffer copy;  // as the loop's memory is needed to receive
  if (!lent.empty() && !state->machine.may_write()) {
    copy.append(bytes);
    bytes = copy.bytes();
    lent.reset();
  }
  const io::backend& io = io::backend_of(state->inner.loop());
  const bool at_once = !lent.empty();
  std::size_t done = 0;
  std::exception_ptr failed;
  do {
    // More than this visit may send would only wait.
    const std::size_t most =
        at_once ? bytes.size()
                : std::clamp(io.share_left(io::direction::write), record_size, most_sent_at_once);
    const std::span<const std::byte> part =
        bytes.subspan(done, std::min(bytes.size() - done, most));
    if (!part.empty() && !state->machine.may_write()) co_await read_rest(state, name);
    if (state->output.capacity() == 0) state->output = scratch_buffer::take();
    if (state->machine.write(part) == engine::status::failed) state->throw_failure(name);
    lent.reset();
    while (!state->output.empty()) {
      sending_lock sending(*state);
      try {
        while (!sending.bytes.empty()) {
          const std::size_t sent = co_await state->inner.write_some(sending.bytes.bytes());
          sending.bytes.consume(sent);
        }
      } catch (const std::system_error& error) {
        if (!says_that_peer_has_gone(error.code())) throw;
        sending.bytes.consume_all();
        failed = std::current_exception();
      }
      if (failed) break;
    }
    if (failed) [[unlikely]] {
      co_await read_last_words(state, name);
      if (state->machine.why().code) state->throw_failure(name);
      std::rethrow_exception(failed);
    }
    done += part.size();
  } while (whole && done < bytes.size());
  co_return done;
}

task<std::size_t> write_pieces(state_ptr state, std::span<const iovec> pieces) {
  io::buffer together;
  std::size_t done = 0;
  for (std::size_t next = 0; next < pieces.size();) {
    const iovec& piece = pieces[next];
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(piece.iov_base),
                                           piece.iov_len);
    // Small ones share a record; a large one goes as it is.
    const bool fits = together.size() + bytes.size() <= record_size;
    if (fits) {
      together.append(bytes);
      ++next;
      if (next < pieces.size()) continue;
    }
    if (!together.empty()) {
      done += co_await write(state, together.bytes(), true);
      together.consume_all();
    } else if (!fits) {
      done += co_await write(state, bytes, true);
      ++next;
    }
  }
  co_return done;
}

task<std::size_t> write_received(state_ptr state, io::received bytes) {
  const std::span<const std::byte> all = bytes.bytes();
  return write(std::move(state), all, true, std::move(bytes));
}

task<std::size_t> write_file(state_ptr state, int file, ::off_t offset, std::size_t count) {
  static constexpr const char* name = "gyre::tls::tls_stream: send_file";
  std::size_t done = 0;
  scratch_buffer part;
  while (done < count) {
    part->consume_all();
    const std::span<std::byte> room = part->prepare(std::min(count - done, most_of_file_at_once));
    const ssize_t read = ::pread(file, room.data(), std::min(room.size(), count - done),
                                 offset + static_cast<::off_t>(done));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) gyre::detail::throw_errno(name);
    if (read == 0) break;  // the file ends here
    part->commit(static_cast<std::size_t>(read));
    done += co_await write(state, part->bytes(), true);
  }
  co_return done;
}

task<> end_writing(state_ptr state) {
  static constexpr const char* name = "gyre::tls::tls_stream: shutdown";
  {
    const direction_lock lock(*state, state->is_writing, name);
    if (!state->machine.closed()) co_await read_rest(state, name);
  }
  state->machine.close_notify();
  co_await write(state, {}, true);
  state->inner.shutdown(net::shutdown_side::send);
}

task<> shake_hands(state_ptr state) {
  const char* const name =
      state->machine.loaded().is_server ? "gyre::tls::accept" : "gyre::tls::connect";
  for (;;) {
    const engine::status now = state->machine.handshake();
    if (now == engine::status::failed) state->throw_failure(name);
    if (!state->output.empty()) co_await write(state, {}, true);
    if (now == engine::status::done) co_return;
    {
      reading_lock lock(*state, name);
      io::received came = co_await lock.receive(name);
      lock.take(std::move(came), name);
    }
    co_await gyre::detail::heavy_turn(state->inner.loop());
  }
}

}  // namespace gyre::tls::detail
