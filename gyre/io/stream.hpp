// SPDX-License-Identifier: Apache-2.0
// A stream of bytes as coroutines see it: connections, pipes, terminals.
//
//     gyre::task<> echo(gyre::io::stream& peer) {
//       for (;;) {
//         auto data = co_await peer.receive();  // in the loop's memory; nothing is held until then
//         if (data.empty()) co_return;          // the peer has ended its side
//         co_await peer.write_all(std::move(data));
//       }
//     }
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/detail/awaiting.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/detail/stream_operations.hpp>
#include <gyre/io/received.hpp>
#include <gyre/io/request.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::io {

/// Reads and writes a descriptor that a loop serves: the base of net::tcp_stream and
/// net::unix_stream, and by itself for pipes, terminals and the like. One pointer, movable, also
/// while coroutines wait for it.
///
/// What the operations have in common. Each returns an object to be awaited, once:
///
///     std::size_t first = co_await stream.read_some(room);              // throws system_error
///     auto second = co_await gyre::as_expected(stream.read_some(room));  // gives std::expected
///     std::size_t third = co_await stream.read_some(room).within(2s);   // std::errc::timed_out
///
/// None of these three allocates. What can be done at once is done without suspending; else the
/// coroutine goes on from the loop, directly if the loop is its executor. After many operations in a
/// row that need not wait one waits for the loop's next turn, so that others get theirs; a limit of
/// zero ends that one.
///
/// Who and where: coroutines on the loop's thread (else std::errc::operation_not_permitted;
/// resume_on() goes there), or its owner while no thread runs it. One may read and one may write at
/// a time; a second one gets std::errc::operation_in_progress. Waiting to be readable or writable
/// counts as reading or writing. Memory given to an operation must live until it has ended. The
/// stream must not outlive the loop; it may be moved, and destroyed, while operations are under way.
///
/// How they end early: with operation_cancelled when the coroutine is asked to stop (from any
/// thread); with std::errc::operation_canceled when the stream is closed or destroyed;
/// std::errc::timed_out; or the system's error, such as connection_reset and broken_pipe. One that
/// has completed is not cancelled any more: nothing that was received is lost, but what several
/// reads or writes make up (read_exactly, write_all, send_file) is left half done, and how much was
/// done is not told: such a stream is best closed. read_until leaves what it read in its buffer. A
/// coroutine that waits may also be destroyed, on the loop's thread, also when the stream has just
/// been closed, unless a stop was requested or its executor is neither the loop nor
/// inline_executor(): then its wake-up may be in a queue, and it must be resumed. A closed stream,
/// and one that was moved from, gives std::errc::bad_file_descriptor.
///
/// What is no socket is written by write(2): where the reader of a pipe is gone, that raises SIGPIPE,
/// which ends a program that does not ignore it. (A runtime does, see runtime_options; send_file()
/// and sockets raise none.)
class stream {
 public:
  /// One that is closed.
  stream() noexcept = default;
  /// Serves `fd` on `loop`. `fd` is made non-blocking. Use handle_kind::file unless it is a socket.
  /// Two or three system calls; one block from the slab. Throws what io::descriptor throws (EPERM:
  /// regular files cannot be waited for), and then closes `fd`.
  stream(event_loop& loop, unique_fd fd, handle_kind kind = handle_kind::file);
  stream(stream&& other) noexcept = default;
  stream& operator=(stream&& other) noexcept = default;
  /// Closes.
  ~stream() = default;

  [[nodiscard]] bool is_open() const noexcept { return on_ != nullptr && on_->is_open(); }
  /// -1 once it is closed.
  [[nodiscard]] int fd() const noexcept { return is_open() ? on_->fd() : -1; }
  /// The loop that serves it; throws std::errc::bad_file_descriptor if it is closed.
  [[nodiscard]] event_loop& loop() const;

  /// Closes the descriptor. Who waits gets std::errc::operation_canceled, in the loop's next turn.
  /// What was written is still sent by the kernel. Idempotent.
  void close() noexcept {
    if (on_ != nullptr) on_->close();
  }
  /// Gives the descriptor up (non-blocking) instead of closing it, otherwise as close(): to make a
  /// stream of it on another loop, or for another program.
  [[nodiscard]] unique_fd release() noexcept {
    return on_ != nullptr ? on_->release() : unique_fd();
  }

  /// Reads what there is, up to `to.size()` bytes, but waits for at least one. Gives how many; 0 is
  /// the end of the stream (or `to` is empty). One system call.
  auto read_some(std::span<std::byte> to) noexcept { return awaiter<detail::reading>(to, false); }
  /// Fills `to`, and gives its size. Error: errc::unexpected_end if the stream ends before.
  auto read_exactly(std::span<std::byte> to) noexcept { return awaiter<detail::reading>(to, true); }
  /// Appends what comes to `to` until `delimiter` is in it; nothing is read if it is in it already.
  /// Gives the size of what ends with the first delimiter; more may be behind it. Both arguments
  /// must live until then.
  ///
  /// Errors: errc::limit_exceeded when the first `limit` bytes (or all that the buffer may hold)
  /// have none, errc::unexpected_end. What has come is in the buffer, up to a block of the loop's
  /// memory (1 MiB) more than `limit`; but the last block that came is lost if the buffer's max_size
  /// leaves no room for it: such a stream is best closed. While it waits it holds no memory besides.
  auto read_until(buffer& to, std::string_view delimiter, std::size_t limit = 64 * 1024) noexcept {
    return awaiter<detail::reading_until>(to, delimiter, limit);
  }
  /// Gives what has come, in memory of the loop; empty at the end of the stream. No copy, and
  /// nothing is held while nothing comes: best for servers with many connections. Give it back soon:
  /// see received.
  auto receive() noexcept { return awaiter<detail::receiving>(); }

  /// Writes some of `from`, and gives how many bytes; waits until at least one can be written. One
  /// system call.
  auto write_some(std::span<const std::byte> from) noexcept {
    return awaiter<detail::writing>(from, false);
  }
  auto write_some(std::string_view text) noexcept { return write_some(bytes_of(text)); }
  /// The same for several pieces (writev(2)); `from` and what it refers to must live until then.
  auto write_some(std::span<const iovec> from) noexcept {
    return awaiter<detail::gathering>(from, false);
  }
  /// As write_some(), under the name of write(2).
  auto write(std::span<const std::byte> from) noexcept { return write_some(from); }
  auto write(std::string_view text) noexcept { return write_some(text); }

  /// Writes all of `from`, and gives its size.
  auto write_all(std::span<const std::byte> from) noexcept {
    return awaiter<detail::writing>(from, true);
  }
  auto write_all(std::string_view text) noexcept { return write_all(bytes_of(text)); }
  auto write_all(std::span<const iovec> from) noexcept {
    return awaiter<detail::gathering>(from, true);
  }
  /// The same out of the loop's memory. If it must wait, it copies what is left into a block of
  /// that size (std::errc::not_enough_memory) and gives the loop's memory back, so that slow peers
  /// hold none of it.
  auto write_all(received&& from) noexcept {
    return awaiter<detail::writing_received>(std::move(from));
  }
  /// Writes `count` bytes of the file `file` from `offset` on, without bringing them into the
  /// program (sendfile(2)). Gives how many: fewer if the file ends there. `file` must stay open; the
  /// system reads it within the calls, so a slow disk holds up the loop.
  auto send_file(int file, ::off_t offset, std::size_t count) noexcept {
    return awaiter<detail::sending_file>(file, offset, count);
  }

  /// Waits until there is something to read (or the end), or room to write.
  auto wait_readable() noexcept { return awaiter<detail::waiting_for_readiness>(direction::read); }
  auto wait_writable() noexcept { return awaiter<detail::waiting_for_readiness>(direction::write); }

 protected:
  explicit stream(detail::owned_descriptor on) noexcept : on_(std::move(on)) {}

  const detail::owned_descriptor& descriptor() const noexcept { return on_; }

 private:
  template <class Operation, class... Arguments>
  detail::awaiting<Operation> awaiter(Arguments&&... arguments) noexcept {
    return detail::awaiting<Operation>(std::in_place, on_.get(),
                                       std::forward<Arguments>(arguments)...);
  }
  static std::span<const std::byte> bytes_of(std::string_view text) noexcept {
    return std::as_bytes(std::span(text));
  }

  detail::owned_descriptor on_;
};

/// A pipe: what is written to the one end is read from the other.
struct pipe {
  stream read_end;
  stream write_end;
};

/// Makes a pipe with both ends on `loop`. Writing to it when the read end is closed raises SIGPIPE,
/// and gives std::errc::broken_pipe if the program ignores that: see stream. Throws std::system_error
/// (EMFILE, ENFILE), and what stream() throws.
pipe make_pipe(event_loop& loop);

}  // namespace gyre::io
