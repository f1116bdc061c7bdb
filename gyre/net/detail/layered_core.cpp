// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/layered_core.hpp>

#include <gyre/exec/detail/heavy_turn.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/detail/scratch_buffer.hpp>
#include <gyre/io/detail/system_files.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/detail/layer_limits.hpp>
#include <gyre/net/detail/layered_locks.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/recorded_wait.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <string>
#include <type_traits>

namespace gyre::net::detail {

using io::detail::scratch_buffer;
using status = layer::status;

namespace {

constexpr std::string_view released_name = "gyre::net::layered_stream";

// --- Reading operations, each as a step ---

struct read_step {
  using result = std::size_t;
  static constexpr std::string_view name = "read";

  std::span<std::byte> buffer;
  bool transfers_all;
  std::size_t total = 0;

  status advance(layered_core& core) {
    status outcome = status::done;
    while (outcome == status::done && total < buffer.size()) {
      std::size_t count = 0;
      outcome = core.protocol->take(buffer.subspan(total), count);
      total += count;
      if (count > 0 && !transfers_all) return status::done;
    }
    return total == buffer.size() ? status::done : outcome;
  }
  std::size_t finish(layered_core& core) const {
    if (transfers_all && total < buffer.size()) core.throw_error(io::errc::unexpected_end, name);
    return total;
  }
};

struct receive_step {
  using result = io::received;
  static constexpr std::string_view name = "receive";

  io::received bytes = {};

  status advance(layered_core& core) {
    io::receive_memory& memory = io::backend_of(core.inner.loop()).memory();
    const std::span<std::byte> buffer = memory.room();
    if (buffer.empty()) core.throw_error({ENOMEM, std::system_category()}, name);
    std::size_t count = 0;
    const status outcome =
        core.protocol->take(buffer.first(std::min(buffer.size(), max_written_at_once)), count);
    if (count == 0) return outcome;
    bytes = memory.lend(count);
    return status::done;
  }
  io::received finish(layered_core& /*core*/) { return std::move(bytes); }
};

struct read_until_step {
  using result = std::size_t;
  static constexpr std::string_view name = "read_until";

  io::buffer& buffer;
  std::string_view delimiter;
  std::size_t limit;
  std::size_t searched_bytes = 0;
  std::size_t position = io::input::npos;

  status advance(layered_core& core) {
    for (;;) {
      const std::size_t overlap = delimiter.empty() ? 0 : delimiter.size() - 1;
      position = buffer.find(delimiter, searched_bytes > overlap ? searched_bytes - overlap : 0);
      searched_bytes = buffer.size();
      if (position != io::input::npos && position + delimiter.size() <= limit) return status::done;
      if (position != io::input::npos || searched_bytes >= limit) {
        core.send_now();
        core.throw_error(io::errc::limit_exceeded, name);
      }
      std::size_t count = 0;
      const status outcome = core.protocol->take(buffer.prepare(record_size), count);
      buffer.commit(count);
      if (count == 0) return outcome;
    }
  }
  std::size_t finish(layered_core& core) const {
    if (position == io::input::npos) core.throw_error(io::errc::unexpected_end, name);
    return position + delimiter.size();
  }
};

/// Completes when a read need not wait, also after a failure or a premature end, which the next
/// read reports.
struct wait_step {
  using result = void;
  static constexpr std::string_view name = "wait_readable";

  static status advance(layered_core& core) {
    const bool must_wait = core.protocol->peek() == status::wants_input;
    return must_wait ? status::wants_input : status::done;
  }
  static void finish(layered_core& /*core*/) {}
};

/// Drives a reading operation. At the end of the peer's bytes, the step's finish() decides whether
/// the end is an error.
template <class Step>
task<typename Step::result> drive(core_ptr core, Step step) {
  reading_lock lock(*core, core->is_reading, Step::name);
  while (core->writer_reads) [[unlikely]]
    co_await core->more_is_read(Step::name);
  for (;;) {
    const status outcome = step.advance(*core);
    core->send_now();
    if (outcome == status::failed) core->throw_failure(Step::name);
    if (outcome != status::wants_input) break;
    io::received input = co_await lock.receive();
    if (std::is_same_v<Step, wait_step> && input.empty()) break;
    if (!lock.take(std::move(input))) break;
  }
  co_return step.finish(*core);
}

// --- A writer that must read ---

// Reads until the layer may write, which needs the rest of a message of the peer. If another
// coroutine is reading, waits for it instead.
task<> read_rest(core_ptr core, std::string_view operation) {
  while (!core->protocol->may_write()) {
    if (core->is_reading) {
      co_await core->more_is_read(operation);
      continue;
    }
    reading_lock lock(*core, core->writer_reads, operation);
    io::received input = co_await lock.receive();
    if (!lock.take(std::move(input))) core->throw_error(io::errc::unexpected_end, operation);
    if (core->protocol->peek() == status::failed) core->throw_failure(operation);
  }
}

bool is_of_a_gone_peer(const std::error_code& error) noexcept {
  return error == std::errc::connection_reset || error == std::errc::broken_pipe;
}

// Reads the bytes that a peer sent before it closed: an alert says more than a connection reset.
task<> read_peer_failure(core_ptr core, std::string_view operation) {
  try {
    // The present reader may get the alert.
    while (core->is_reading) co_await core->more_is_read(operation);
    reading_lock lock(*core, core->writer_reads, operation);
    layer& protocol = *core->protocol;
    const auto advance = [&protocol] {
      return protocol.is_established() ? protocol.peek() : protocol.handshake();
    };
    while (advance() == status::wants_input) {
      io::received input = co_await lock.receive();
      if (!lock.take(std::move(input))) co_return;
    }
  } catch (const std::exception&) {
    co_return;  // the peer has sent no reason
  }
}

}  // namespace

// --- The core ---

void layered_core::send_now() noexcept {
  const int fd = inner.fd();  // -1 for a closed stream
  if (is_sending || output.empty() || fd < 0) return;
  if (const io::result outcome = system::send_without_waiting(fd, output.bytes()))
    output.consume(outcome.count());
  if (!output.empty()) return;
  left_by_writes = 0;
  scratch_buffer::give_back(std::exchange(output, io::buffer()));
}

std::string layered_core::text_of(std::string_view operation) const {
  const std::string_view name = protocol != nullptr ? protocol->stream_name() : released_name;
  return std::string(name).append(": ").append(operation);
}

void layered_core::throw_error(std::error_code code, std::string_view operation) const {
  throw std::system_error(code, text_of(operation));
}

void layered_core::throw_failure(std::string_view operation) {
  send_now();
  const layer::failure& reason = protocol->why();
  std::string text = text_of(operation);
  const std::string_view peer = protocol->peer_name();
  if (!peer.empty()) text.append(" (").append(peer).append(")");
  if (!reason.text.empty()) text.append(": ").append(reason.text);
  throw std::system_error(protocol->error(), text);
}

task<> layered_core::more_is_read(std::string_view operation) {
  is_awaited_ = true;
  co_await more_read_.wait();
  if (!inner.is_open()) throw_error(io::errc::closed, operation);
}

// Resumes the waiter of more_is_read() by a post, after the coroutine that reads has continued or
// ended.
void layered_core::notify_of_reading() noexcept {
  if (std::exchange(is_awaited_, false)) more_read_.set();
}

bool layered_core::is_quiet() noexcept try {
  if (!inner.is_open() || is_reading || writer_reads) return false;
  reading_lock lock(*this, is_reading, "is_quiet");
  const auto has_nothing = [this] {
    const status outcome = protocol->peek();
    send_now();
    return outcome == status::wants_input && !protocol->awaits_rest();
  };
  if (!has_nothing()) return false;
  io::receive_memory& memory = io::backend_of(inner.loop()).memory();
  const std::span<std::byte> buffer = memory.room();
  if (buffer.empty()) return false;
  const io::result outcome = system::receive_without_waiting(inner.fd(), buffer.first(record_size));
  if (!outcome) return outcome.would_block();
  if (outcome.count() == 0) return false;
  lock.take(memory.lend(outcome.count()));
  return has_nothing() && inner.is_quiet();
} catch (const std::exception&) {
  return false;
}

void layered_core::announce_end() noexcept {
  try {
    protocol->end();
  } catch (const std::exception&) {
    output = io::buffer();  // a part of the layer's last message must not be sent
  }
}

void layered_core::close() noexcept {
  if (!inner.is_open()) return;
  if (!is_writing && output.empty() && protocol->is_established() && !protocol->why().code &&
      !protocol->has_announced_end() && protocol->may_write()) {
    announce_end();
    send_now();
  }
  inner.close();
}

// --- Operations ---

task<std::size_t> read(core_ptr core, std::span<std::byte> buffer, bool transfers_all) {
  return drive(std::move(core), read_step{.buffer = buffer, .transfers_all = transfers_all});
}

task<io::received> receive(core_ptr core) { return drive(std::move(core), receive_step{}); }

task<std::size_t> read_until(core_ptr core, io::buffer& buffer, std::string_view delimiter,
                             std::size_t limit) {
  return drive(std::move(core),
               read_until_step{.buffer = buffer, .delimiter = delimiter, .limit = limit});
}

task<> wait_readable(core_ptr core) { return drive(std::move(core), wait_step{}); }

task<std::size_t> write(core_ptr core, std::span<const std::byte> bytes, bool transfers_all,
                        io::received source_memory) {
  static constexpr std::string_view name = "write";
  const direction_lock lock(*core, core->is_writing, name);
  layer& protocol = *core->protocol;
  if (protocol.has_announced_end() && !bytes.empty()) {
    core->throw_error({EPIPE, std::system_category()}, name);
  }
  io::buffer copy;  // keeps `bytes`, because receiving needs the loop's memory
  if (!source_memory.empty() && !protocol.may_write()) {
    copy.append(bytes);
    bytes = copy.bytes();
    source_memory.reset();
  }
  const io::backend& io = io::backend_of(core->inner.loop());
  const bool writes_all_at_once = !source_memory.empty();
  std::size_t total = 0;
  std::exception_ptr send_error;
  do {
    const std::size_t limit = writes_all_at_once ? bytes.size() : writable_at_once(io);
    const std::span<const std::byte> part =
        bytes.subspan(total, std::min(bytes.size() - total, limit));
    if (!part.empty() && !protocol.may_write()) co_await read_rest(core, name);
    if (core->output.capacity() == 0) core->output = scratch_buffer::take();
    const bool has_failed = part.empty() ? static_cast<bool>(protocol.why().code)
                                         : protocol.write(part) == status::failed;
    if (has_failed) core->throw_failure(name);
    source_memory.reset();
    while (!core->output.empty()) {
      sending_lock send_lock(*core);
      try {
        while (!send_lock.bytes.empty()) {
          const std::size_t count = co_await core->inner.write_some(send_lock.bytes.bytes());
          send_lock.bytes.consume(count);
        }
      } catch (const std::system_error& error) {
        if (!is_of_a_gone_peer(error.code())) throw;
        send_lock.bytes.consume_all();
        send_error = std::current_exception();
      }
      if (send_error) break;
    }
    if (send_error) [[unlikely]] {
      co_await read_peer_failure(core, name);
      if (protocol.why().code) core->throw_failure(name);
      std::rethrow_exception(send_error);
    }
    total += part.size();
  } while (transfers_all && total < bytes.size());
  co_return total;
}

task<std::size_t> write_pieces(core_ptr core, std::span<const iovec> pieces) {
  io::buffer buffer;
  record_parts parts(pieces, buffer);
  std::size_t total = 0;
  for (auto part = parts.next(); !part.empty(); part = parts.next()) {
    total += co_await write(core, part, true);
  }
  co_return total;
}

task<std::size_t> write_received(core_ptr core, io::received bytes) {
  const std::span<const std::byte> all = bytes.bytes();
  return write(std::move(core), all, true, std::move(bytes));
}

task<std::size_t> write_file(core_ptr core, int file, ::off_t offset, std::size_t count) {
  std::size_t total = 0;
  scratch_buffer part;
  while (total < count) {
    part->consume_all();
    const std::size_t size = std::min(count - total, max_file_part_size);
    const io::result read_result = io::detail::system::read_at(
        file, part->prepare(size).first(size), static_cast<std::uint64_t>(offset) + total);
    if (!read_result) core->throw_error(read_result.error(), "send_file");
    if (read_result.count() == 0) break;  // the file has ended
    part->commit(read_result.count());
    total += co_await write(core, part->bytes(), true);
  }
  co_return total;
}

task<> end_writing(core_ptr core) {
  static constexpr std::string_view name = "shutdown";
  {
    const direction_lock lock(*core, core->is_writing, name);
    if (!core->protocol->has_announced_end()) co_await read_rest(core, name);
  }
  if (!core->protocol->has_announced_end()) core->protocol->end();
  co_await write(core, {}, true);
  core->inner.shutdown(shutdown_side::send);
}

task<> shake_hands(core_ptr core, handshake_observer* observer) {
  static constexpr std::string_view name = "handshake";
  const trace::detail::recorded_wait record(trace::detail::event_kind::handshake);
  layer& protocol = *core->protocol;
  while (!protocol.is_established()) {
    const status outcome = protocol.handshake();
    if (outcome == status::failed) core->throw_failure(name);
    if (outcome == status::ended) core->throw_error(io::errc::unexpected_end, name);
    if (observer != nullptr) {
      if (const auto refusal = observer->note_step(protocol)) core->throw_error(refusal, name);
    }
    if (!core->output.empty()) co_await write(core, {}, true);
    if (outcome == status::done) co_return;
    if (protocol.max_input() < record_size) {
      const reading_lock lock(*core, core->is_reading, name);
      std::array<std::byte, 16> buffer;
      const auto part = std::span(buffer).first(std::min(buffer.size(), protocol.max_input()));
      const std::size_t count = co_await core->inner.read_some(part);
      if (count == 0) core->throw_error(io::errc::unexpected_end, name);
      protocol.feed(part.first(count));
      protocol.keep_unread();
    } else {
      reading_lock lock(*core, core->is_reading, name);
      io::received input = co_await lock.receive();
      if (!lock.take(std::move(input))) core->throw_error(io::errc::unexpected_end, name);
    }
    if (protocol.has_heavy_handshake()) co_await gyre::detail::heavy_turn(core->inner.loop());
  }
}

}  // namespace gyre::net::detail
