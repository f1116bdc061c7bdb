// SPDX-License-Identifier: Apache-2.0
// stream_state: what the tasks of a tls_stream share.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/sync/event.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/tls_stream.hpp>

#include <memory>
#include <string>
#include <utility>

namespace gyre::tls::detail {

/// Thread-safety: the loop's thread.
class stream_state {
 public:
  stream_state(net::tcp_stream connected, const tls_context& context, std::string host,
               const session& resumed)
      : inner(std::move(connected)), machine(context, std::move(host), resumed, output) {}

  static tls_stream stream_of(std::shared_ptr<stream_state> state) {
    return tls_stream(std::move(state));
  }

  /// Sends records without waiting, if nobody else sends: alerts, and answers to the peer's wishes.
  /// The rest goes before the next write.
  void send_now() noexcept;
  /// Sends an alert, if there is one, and throws the engine's failure.
  [[noreturn]] void throw_failure(const char* operation);
  /// See tls_stream::is_quiet().
  bool is_quiet() noexcept;
  void close() noexcept;

  net::tcp_stream inner;
  io::buffer output;  // records that wait to be sent
  io::buffer stash;   // received and not decrypted, as nobody reads
  engine machine;
  bool is_reading = false;
  bool is_writing = false;
  bool writer_reads = false;  // see read_rest()

  bool is_sending = false;         // see sending_lock
  std::size_t left_by_writes = 0;  // bytes of output at most, of writes that were stopped

  /// Waits until the one who reads has read more, or ends. Throws io::errc::closed.
  task<> more_is_read(const char* operation);
  void tell_of_reading() noexcept;

 private:
  bool is_awaited_ = false;
  auto_reset_event more_read_;
};

/// Marks one direction as in use. Throws io::errc::busy, io::errc::not_open.
class direction_lock {
 public:
  direction_lock(stream_state& state, bool& in_use, const char* operation);
  direction_lock(const direction_lock&) = delete;
  direction_lock& operator=(const direction_lock&) = delete;
  ~direction_lock() { in_use_ = false; }

 private:
  bool& in_use_;
};

/// The bytes that one reading operation has received. While it waits, and when it has ended, none
/// of the loop's memory is held: bytes that are not decrypted yet are stashed.
class reading_lock : direction_lock {
 public:
  reading_lock(stream_state& state, const char* operation)
      : reading_lock(state, state.is_reading, operation) {}
  /// `in_use`: is_reading, or writer_reads.
  reading_lock(stream_state& state, bool& in_use, const char* operation)
      : direction_lock(state, in_use, operation), state_(state) {}
  ~reading_lock();

  /// Waits for bytes, which take() takes. Throws if the peer causes answers that it does not read.
  auto receive(const char* operation) {
    prepare_to_receive(operation);
    return state_.inner.receive();
  }
  /// Feeds the engine. Throws if these are none: the end of the connection.
  void take(io::received came, const char* operation);
  /// Gives the loop's memory back. Throws std::bad_alloc.
  void give_back();

 private:
  void prepare_to_receive(const char* operation);

  stream_state& state_;
  io::received came_;
};

/// The bytes that one writing operation sends; the rest stays before those of the next one.
class sending_lock {
 public:
  explicit sending_lock(stream_state& state) noexcept
      : bytes(std::exchange(state.output, io::buffer())), state_(state) {
    state.is_sending = true;
    state.left_by_writes = 0;
  }
  sending_lock(const sending_lock&) = delete;
  sending_lock& operator=(const sending_lock&) = delete;
  ~sending_lock();

  io::buffer bytes;

 private:
  stream_state& state_;
};

using state_ptr = std::shared_ptr<stream_state>;

task<std::size_t> read(state_ptr state, std::span<std::byte> room, bool whole);
task<std::size_t> read_until(state_ptr state, io::buffer& buffer, std::string_view delimiter,
                             std::size_t limit);
task<io::received> receive(state_ptr state);
task<> wait_readable(state_ptr state);
/// `lent`: the memory of `bytes`, which is given back when they are encrypted.
task<std::size_t> write(state_ptr state, std::span<const std::byte> bytes, bool whole,
                        io::received lent = {});
task<std::size_t> write_pieces(state_ptr state, std::span<const iovec> pieces);
task<std::size_t> write_received(state_ptr state, io::received bytes);
task<std::size_t> write_file(state_ptr state, int file, ::off_t offset, std::size_t count);
task<> end_writing(state_ptr state);
task<> shake_hands(state_ptr state);

}  // namespace gyre::tls::detail
