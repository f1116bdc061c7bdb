// SPDX-License-Identifier: Apache-2.0
// stream: a stream of bytes for coroutines, such as a connection, a pipe, a terminal.
//
//     gyre::task<> echo(gyre::io::stream& peer) {
//       for (;;) {
//         auto data = co_await peer.receive();  // in the loop's memory; while it waits, in none
//         if (data.empty()) co_return;          // the peer has ended its side
//         co_await peer.write_all(std::move(data));
//       }
//     }
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/io/detail/write_received_awaiter.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/request.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::io {

/// A move-only stream of bytes over a descriptor that a loop serves: the base of net::tcp_stream
/// and net::unix_stream, and by itself for pipes, terminals and the like. Its size is one pointer.
///
/// Each operation returns an object to be awaited, once, as it is, which throws errors; by
/// as_expected(), which gives errors as values; and either of these with a time limit:
///
///     std::size_t first = co_await stream.read_some(room);               // throws system_error
///     auto second = co_await gyre::as_expected(stream.read_some(room));  // gives std::expected
///     std::size_t third = co_await gyre::with_timeout(stream.read_some(room), 2s);
///
/// An operation that can be done at once does not suspend the coroutine. Otherwise the loop resumes
/// the coroutine, directly if the loop is its executor. After 64 operations in a row that need not
/// wait, or when the stream's share of bytes has been moved, an operation is nevertheless postponed
/// until other streams have had their turn. The share is 1 MiB in each direction, and less where
/// many streams are ready; quiet streams do not wait for busy ones. A time limit as short as a
/// turn, such as 0 s, may then end the operation although it could have been done.
///
/// At most one coroutine reads and one writes at a time; waiting to be readable or writable counts
/// as reading or writing.
///
/// When a stop or a time limit ends read_some(), receive() or write_some(), no byte was moved.
/// Operations of several calls (read_exactly, write_all, send_file) may fail half done, without
/// reporting how far: close such a stream. read_until() leaves the bytes that it read in its
/// buffer.
///
/// Descriptors that are not sockets are written by write(2): to a pipe without a reader that raises
/// SIGPIPE, which ends a program that does not ignore it. runtime ignores it by default
/// (runtime_options::ignore_sigpipe). send_file(), and sockets, raise no SIGPIPE.
///
/// Thread-safety: for coroutines on the loop's thread (resume_on() takes them there); while no
/// thread runs the loop, also for one thread at a time. A stop may be requested on any thread.
/// Lifetime: the stream must not outlive the loop. Only the stream may close its descriptor, or
/// its next owner after release(): otherwise events may reach a stream that is gone. The stream
/// may be moved, and destroyed, while operations are under way. Memory that an operation uses must
/// live until it has ended. A waiting coroutine may be destroyed on the loop's thread if its
/// executor is the loop or inline_executor() and no stop was requested. Otherwise its wake-up may
/// be in a queue already: let the coroutine be resumed.
/// Errors: those of the system, such as connection_reset, broken_pipe, and bad_file_descriptor for
/// reading what was opened only to be written, or the reverse. A stop of the coroutine
/// (by its stop token, not event_loop::stop()) throws gyre::operation_cancelled, which is not a
/// std::exception, also out of as_expected(): let it pass. Further errors:
/// - errc::closed when the stream is closed, released or destroyed: std::errc::operation_canceled,
/// - errc::not_open if the stream is closed, or was moved from: std::errc::bad_file_descriptor,
/// - errc::busy if another coroutine reads (or writes) already: std::errc::operation_in_progress,
/// - errc::wrong_thread on another thread than the loop's: std::errc::operation_not_permitted.
///
/// Complexity: only read_until() and write_all(received&&) allocate.
class stream {
 public:
  /// Makes a closed stream.
  stream() noexcept = default;
  /// Makes `fd` non-blocking, and serves it on `loop`. A socket needs its handle_kind: as `other`
  /// its writes raise SIGPIPE. Two or three system calls, one block of the slab. Throws as
  /// io::descriptor does (EPERM for a file or a block device: see io::file), and then closes `fd`.
  stream(event_loop& loop, unique_fd fd, handle_kind kind = handle_kind::other);
  stream(stream&& other) noexcept = default;
  stream& operator=(stream&& other) noexcept = default;
  ~stream() = default;

  [[nodiscard]] bool is_open() const noexcept {
    return descriptor_ != nullptr && descriptor_->is_open();
  }
  /// Returns the descriptor, or -1 when the stream is closed.
  [[nodiscard]] int fd() const noexcept { return is_open() ? descriptor_->fd() : -1; }
  /// Returns whether the stream is open, and nothing can be read: no byte, no end, no error. A pool
  /// of connections calls it before it reuses one. One system call.
  [[nodiscard]] bool is_quiet() const noexcept;
  /// Returns the loop that serves the stream. Throws errc::not_open when the stream is closed.
  [[nodiscard]] event_loop& loop() const;

  /// Closes the descriptor. Coroutines that wait get errc::closed in the loop's next turn. The
  /// kernel still sends the bytes that were written. Idempotent.
  void close() noexcept {
    if (descriptor_ != nullptr) descriptor_->close();
  }
  /// Does what close() does, but returns the (non-blocking) descriptor instead of closing it: for
  /// another loop, or for a child process. Bytes that no operation has given are still in the
  /// descriptor.
  [[nodiscard]] unique_fd release() noexcept {
    return descriptor_ != nullptr ? descriptor_->release() : unique_fd();
  }

  /// Waits for at least one byte, and reads up to `bytes.size()`. Gives their count; 0 is the end
  /// of the stream (or `bytes` is empty). One system call.
  auto read_some(std::span<std::byte> bytes) noexcept {
    return awaiter<detail::read_operation>(bytes, false);
  }
  /// Fills `bytes`, and gives their count. Errors: io::errc::unexpected_end if the stream ends
  /// early.
  auto read_exactly(std::span<std::byte> bytes) noexcept {
    return awaiter<detail::read_operation>(bytes, true);
  }
  /// Appends to `buffer` until the delimiter is in it; reads nothing if it is there already. Gives
  /// the count of bytes up to the end of the first delimiter; more bytes may follow it. `buffer`
  /// and the text of `delimiter` must live until the operation has ended. While it waits it holds
  /// no memory besides the buffer's.
  ///
  /// Errors:
  /// - io::errc::limit_exceeded if the delimiter does not end within the first `limit` bytes of the
  ///   buffer, which then has all received bytes, up to 1 MiB (the largest block of the loop's
  ///   memory) more than `limit`.
  /// - io::errc::limit_exceeded, too, if received bytes do not fit into the buffer's max_size(),
  ///   which `limit` + 1 MiB avoids; they are lost, so the stream is best closed.
  /// - io::errc::unexpected_end if the stream ends before the delimiter.
  auto read_until(buffer& buffer, std::string_view delimiter,
                  std::size_t limit = 64 * 1024) noexcept {
    return awaiter<detail::read_until_operation>(buffer, delimiter, limit);
  }
  /// Gives received bytes in memory of the loop; no bytes mean the end of the stream. Copies
  /// nothing, and an idle stream holds no memory: best for servers with many connections. Destroy
  /// the bytes soon (see received).
  auto receive() noexcept { return awaiter<detail::receive_operation>(); }

  /// Waits until at least one byte can be written, writes some, and gives their count. One system
  /// call.
  auto write_some(std::span<const std::byte> bytes) noexcept {
    return awaiter<detail::write_operation>(bytes, false);
  }
  auto write_some(std::string_view text) noexcept { return write_some(bytes_of(text)); }
  /// Writes some of the pieces by writev(2): of the first IOV_MAX pieces, if there are more.
  /// `pieces` and the memory that they name must live until the operation has ended.
  auto write_some(std::span<const iovec> pieces) noexcept {
    return awaiter<detail::gather_operation>(pieces, false);
  }
  /// Does what write_some() does, under the name of write(2): may write fewer bytes than all.
  auto write(std::span<const std::byte> bytes) noexcept { return write_some(bytes); }
  auto write(std::string_view text) noexcept { return write_some(text); }

  /// Writes all bytes, even of more than IOV_MAX pieces, and gives their count.
  auto write_all(std::span<const std::byte> bytes) noexcept {
    return awaiter<detail::write_operation>(bytes, true);
  }
  auto write_all(std::string_view text) noexcept { return write_all(bytes_of(text)); }
  auto write_all(std::span<const iovec> pieces) noexcept {
    return awaiter<detail::gather_operation>(pieces, true);
  }
  /// Writes all bytes out of the loop's memory, and gives their count. If the operation must wait,
  /// it copies the rest into an allocated block and returns the loop's memory, so that slow peers
  /// hold none of it. Errors: std::errc::not_enough_memory if the block cannot be allocated.
  auto write_all(received&& bytes) noexcept {
    return detail::write_received_awaiter(descriptor_.get(), std::move(bytes));
  }
  /// Writes `count` bytes of `file` from `offset` on by sendfile(2), without copying them into the
  /// program. Gives their count: less if the file ends before. `file` must stay open; the system
  /// reads it within the calls, so a slow disk delays the loop.
  auto send_file(int file, ::off_t offset, std::size_t count) noexcept {
    return awaiter<detail::send_file_operation>(file, offset, count);
  }

  /// Waits until there are bytes to read (or the end), or room to write; gives nothing. Like
  /// poll(2), both functions also wait for a descriptor that cannot be read, or written:
  /// wait_readable() of the write end of a pipe ends when the read end is closed.
  auto wait_readable() noexcept { return awaiter<detail::wait_operation>(direction::read); }
  /// Waits for room to write: see wait_readable().
  auto wait_writable() noexcept { return awaiter<detail::wait_operation>(direction::write); }
  /// Waits like wait_readable(), but a stop, even one that was requested before, ends the wait only
  /// while nothing has arrived: for a server that responds to everything that has arrived before it
  /// ends. A loop around it does not end while the peer always has more.
  auto wait_for_input() noexcept { return awaiter<detail::wait_for_input_operation>(); }

 protected:
  explicit stream(detail::owned_descriptor descriptor) noexcept
      : descriptor_(std::move(descriptor)) {}

  const detail::owned_descriptor& descriptor() const noexcept { return descriptor_; }

 private:
  template <class Operation, class... Arguments>
  detail::request_awaiter<Operation> awaiter(Arguments&&... arguments) noexcept {
    return detail::request_awaiter<Operation>(std::in_place, descriptor_.get(),
                                              std::forward<Arguments>(arguments)...);
  }
  static std::span<const std::byte> bytes_of(std::string_view text) noexcept {
    return std::as_bytes(std::span(text));
  }

  detail::owned_descriptor descriptor_;
};

/// Both ends of a pipe.
struct pipe {
  stream read_end;
  stream write_end;
};

/// Makes a pipe with both ends on `loop` (net::make_pipe() makes one without a loop). To write
/// without a read end raises SIGPIPE (see stream), and gives std::errc::broken_pipe if the program
/// ignores that.
///
/// Thread-safety: the loop's thread; while no thread runs the loop, one thread at a time.
/// Errors: std::system_error (EMFILE, ENFILE), and those of the constructor of stream.
pipe make_pipe(event_loop& loop);

}  // namespace gyre::io
