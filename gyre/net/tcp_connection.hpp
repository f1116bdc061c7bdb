// SPDX-License-Identifier: Apache-2.0
// tcp_connection: a callback-driven TCP (or Unix stream) connection of a tcp_server or tcp_client.
//
//     server.on_message([](gyre::net::tcp_connection& connection, gyre::io::input& input) {
//       connection.send(input.bytes());  // echo: one recv, one send, nothing allocated or copied
//       input.consume_all();
//     });
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/move_only_any.hpp>
#include <gyre/base/move_only_function.hpp>
#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/input.hpp>
#include <gyre/net/connection_metrics.hpp>
#include <gyre/net/detail/connection_io.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/released_connection.hpp>
#include <gyre/net/tcp_connection_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::net {

class layer;

/// A callback-driven connection with an output queue, back-pressure, half-close and graceful close.
///
/// | state     | send()  | received   | close()      | all sent      | peer's FIN | send fails |
/// |-----------|---------|------------|--------------|---------------|------------|------------|
/// | open      | sends   | on_message | flushing (1) | open          | open (2)   | failed (3) |
/// | failed    | refuses | on_message | ended        | -             | ended      | -          |
/// | flushing  | refuses | dropped    | flushing     | lingering (1) | flushing   | ended      |
/// | lingering | refuses | dropped    | lingering    | -             | ended      | -          |
/// | ended     | refuses | -          | ended        | -             | -          | -          |
///
/// close_when_sent() works like close(). abort(), each timeout and a failure of reading lead from
/// any state to ended.
///
/// 1. Without output, flushing is skipped; after the peer's FIN, or close_without_lingering(),
///    lingering is.
/// 2. on_peer_ended is called. Without that callback, or if the connection's own FIN has been sent,
///    the peer's FIN then works like close().
/// 3. To ended instead, if the program has paused reading or the peer's FIN has come before.
///
/// In failed, the last bytes of the peer are still received, for at most `close_timeout`. In
/// lingering, the kernel has all output and the FIN, and the peer's FIN is awaited. After the
/// change to ended, on_close is called in a turn of its own.
///
/// Thread-safety: all members belong to the thread of the connection's loop; other threads use
/// ref().
/// Lifetime: owned by its server or client; valid from the call of on_connection until on_close
/// returns, or its server or client is destroyed.
/// Errors: given to on_close; members that throw say so.
/// Complexity: 112 bytes of the slab, 144 if the peer has an IPv6 address; 32 bytes more with a
/// context or a ref(); and 512 bytes more from the first time that output or an incomplete message
/// waits, or with an idle timeout of its own. It receives into memory of the loop, so that an idle
/// connection holds no buffer.
class tcp_connection : private detail::connection_io {
 public:
  tcp_connection(const tcp_connection&) = delete;
  tcp_connection& operator=(const tcp_connection&) = delete;

  using connection_io::loop;
  /// Returns a number that is unique within the server or client, from 1.
  using connection_io::id;
  /// Returns the descriptor, or -1 when the connection has ended.
  int fd() const noexcept { return is_open() ? connection_io::fd() : -1; }
  /// Whether the state is open, and shutdown_send() has not been called.
  using connection_io::can_send;
  /// Whether the state is not ended, which on_close follows: true while close() flushes and
  /// lingers.
  using connection_io::is_open;

  /// Sends or queues bytes, which need not outlive the call. Returns true if they were accepted,
  /// which does not mean delivered, and false if not can_send(), or if sending fails (see the
  /// table). A call above connection_options::output_limit also returns false, and ends the
  /// connection.
  /// Complexity: one system call if no output waits; copies bytes that the kernel does not take.
  bool send(std::span<const std::byte> bytes) { return connection_io::send(bytes); }
  bool send(std::string_view text) { return send(std::as_bytes(std::span(text))); }
  /// Sends like send(bytes), but moves a large remainder to the queue instead of copying it.
  /// `bytes` is empty after true, and unspecified after false.
  bool send(io::buffer&& bytes) { return connection_io::send(std::move(bytes)); }
  /// Sends several pieces, one after the other, with one system call (at most 64 pieces per call).
  bool send(std::span<const std::span<const std::byte>> pieces) {
    return connection_io::send(pieces);
  }
  bool send(std::initializer_list<std::span<const std::byte>> pieces) {
    return send(std::span(pieces.begin(), pieces.size()));
  }
  /// Sends `count` bytes of a regular file from `offset` on, after earlier output, by sendfile(2).
  /// Closes the file in any case: when all is sent, when the connection ends, or at once.
  ///
  /// Errors: throws std::system_error, and sends nothing, for a file that ends earlier
  /// (io::errc::unexpected_end) and for another kind of file (std::errc::invalid_argument). A file
  /// that becomes shorter while it waits ends the connection with io::errc::unexpected_end, and one
  /// that cannot be read with that error; the peer sees a reset (on Unix sockets, which have none,
  /// an end). Other errors are those of send().
  /// Complexity: allocates. Against `output_limit` a waiting file counts 16 KiB, whatever its
  /// length, and nothing if no other output waits; tcp_server_options::memory_limit has a price of
  /// its own for files. Reading from a slow disk blocks the loop. As a peer that reads nothing
  /// holds a file open besides its connection, a file server should set `connections_per_address`
  /// to at most a quarter of RLIMIT_NOFILE.
  bool send_file(unique_fd file, std::uint64_t offset, std::uint64_t count);
  /// Throws the exceptions that send_file() throws for the file, for a program that sends a head
  /// before the file.
  static void check_file(int file, std::uint64_t offset, std::uint64_t count);
  /// Sends bytes, at least one, and with the first of them copies of `fds` (at most 253), over a
  /// Unix socket (SCM_RIGHTS). The caller keeps the descriptors.
  ///
  /// Errors: throws std::system_error, and sends nothing, for no bytes, too many descriptors and a
  /// TCP connection (std::errc::invalid_argument), and for a descriptor that is not open
  /// (std::errc::bad_file_descriptor). If the message must wait and the process has no descriptors
  /// left for the copies, the connection ends. Other errors are those of send().
  /// Complexity: a system call for each descriptor besides send()'s own. Each copy that waits
  /// counts 16 KiB of output besides the bytes.
  using connection_io::send_fds;
  /// Sends a text with descriptors, like the function above.
  bool send_fds(std::string_view text, std::span<const int> fds) {
    return send_fds(std::as_bytes(std::span(text)), fds);
  }
  /// Takes the received descriptors (close-on-exec), in their order. When on_message is called with
  /// bytes, the descriptors that were sent with them are there. See connection_options::fd_limit.
  [[nodiscard]] std::vector<unique_fd> take_fds() noexcept { return connection_io::take_fds(); }
  /// Returns the number of bytes that wait for the kernel to take them; send_file() and send_fds()
  /// say how files and descriptors count.
  using connection_io::pending_output;
  /// Makes on_low_water be called after more of the waiting output was sent, if at most `low_water`
  /// bytes are left, even if `high_water` was not reached. For a program that produces less.
  /// Does nothing if no output waits.
  using connection_io::notify_at_low_water;
  /// Counts `bytes`, which the program holds in memory for the peer, in
  /// tcp_server_options::memory_limit, instead of those of the last call. Returns whether the
  /// connection stays open: if the limit does not allow them, it ends with io::errc::memory_limit.
  /// Throws std::bad_alloc.
  bool count_memory(std::size_t bytes) { return connection_io::count_memory(bytes); }

  /// Pauses reading, as back-pressure on the peer: on_message and on_peer_ended are not called
  /// until resume_reading(), and the peer must wait when the kernel's buffers are full. Meanwhile
  /// only sending notices an error, `idle_timeout` continues, and `message_timeout` does not.
  /// Idempotent. Independent of a server's pause at `high_water`: the connection reads again when
  /// both are over.
  void pause_reading() noexcept { pause(pauser::program); }
  /// Resumes reading. First on_message is called once more with the input that it left unconsumed,
  /// if any, in a turn of its own, even if no more has come. So a handler may take one message at a
  /// time, pause, and resume when it has dealt with that message.
  void resume_reading() noexcept { resume(pauser::program); }
  /// Whether reading is paused, by pause_reading() or at `high_water`.
  using connection_io::reading_paused;

  /// Ends sending (half-close): sends a FIN once all accepted output is sent. The connection still
  /// receives.
  void shutdown_send() noexcept { connection_io::shutdown(); }
  /// Closes gracefully: sends the accepted output and a FIN, and drops the peer's bytes until its
  /// FIN has come (closing earlier could make the kernel reset the connection, and lose output on
  /// its way). on_message is not called any more. Gives up when the peer has taken nothing for
  /// `close_timeout`, and after `close_limit` in all; if the peer has not taken all output by then,
  /// on_close gets io::errc::close_timeout.
  void close() noexcept { connection_io::close(); }
  /// Closes like close(), with other values of close_timeout and close_limit. A further call can
  /// only end the connection earlier.
  void close(duration timeout) noexcept { connection_io::close(timeout); }
  void close(duration timeout, duration limit) noexcept { connection_io::close(timeout, limit); }
  /// Closes like close(), for output that may take long: until the kernel has all output, the peer
  /// has as much time as on an open connection (`write_timeout`). Only then `close_timeout` and
  /// `close_limit` begin. A call of close() meanwhile begins them at once.
  using connection_io::close_when_sent;
  /// Closes like close_when_sent(), but ends once the kernel has the accepted output, without
  /// waiting for the peer's FIN. For a peer that has announced to send no more: bytes that come
  /// nevertheless make the kernel reset the connection, which can lose output on its way.
  using connection_io::close_without_lingering;
  /// Ends the connection at once: drops waiting output, and resets the connection (RST). on_close
  /// gets io::errc::aborted (std::errc::connection_aborted), or `reason`. Idempotent.
  void abort() noexcept { abort(io::errc::aborted); }
  void abort(std::error_code reason) noexcept { connection_io::abort(reason); }

  /// Takes the connection out of its server or client, for another owner: a coroutine's stream, or
  /// a server on another loop. Within on_message, `unconsumed_bytes` are the bytes that the handler
  /// leaves, `in.bytes()`, which would be lost otherwise. Descriptors that take_fds() leaves are
  /// closed. Then on_close is called, without an error.
  ///
  /// Errors: throws std::system_error, and changes nothing, while output waits or the layer may not
  /// write (std::errc::operation_in_progress), and if not can_send() (io::errc::not_open). Throws
  /// std::bad_alloc, or the error that has ended the peer's bytes, and then ends the connection.
  /// Complexity: copies received bytes that the program has not got.
  [[nodiscard]] released_connection release(std::span<const std::byte> unconsumed_bytes = {});

  /// Sets the connection_options::idle_timeout of this connection; zero disables it. Throws
  /// std::bad_alloc.
  using connection_io::set_idle_timeout;

  /// Returns the address of the peer: for TCP, known until on_close returns; for Unix sockets, read
  /// like local_endpoint().
  using connection_io::peer_endpoint;
  /// Returns the address of this end, by a system call; none when the connection has ended. Throws
  /// std::system_error.
  using connection_io::local_endpoint;

  /// Returns a value that the program attaches, which need not be copyable: `c.context() =
  /// session{…}`. It is destroyed with the connection, after on_close. The first call allocates;
  /// throws std::bad_alloc.
  move_only_any& context();
  /// Returns the attached value; null if there is none or it is not a T.
  template <class T>
  T* context() noexcept {
    return any_cast<T>(attached_context());
  }

  /// Returns this end of the transport's protocol; null without a transport. See tls::info_of().
  const net::layer* layer() const noexcept;

  /// Returns the counters of the connection. With a transport, they count the bytes on the network.
  connection_metrics metrics() const noexcept {
    return {.bytes_received = bytes_received(), .bytes_sent = bytes_sent(), .messages = messages()};
  }

  /// Returns a reference for other threads, and for objects that outlive the connection. The first
  /// call allocates.
  tcp_connection_ref ref();

 private:
  friend tcp_connection& detail::face_of(detail::connection_io&) noexcept;
  friend detail::connection_io* detail::new_connection(detail::connection_group&,
                                                       detail::socket_of_connection, std::uint64_t,
                                                       const endpoint&,
                                                       std::unique_ptr<net::layer>);
  friend void detail::delete_connection(detail::connection_io&) noexcept;

  tcp_connection(detail::connection_group& group, detail::socket_of_connection own_socket,
                 std::uint64_t id, const endpoint& peer)
      : connection_io(group, own_socket, id, peer) {}
  ~tcp_connection() = default;

  move_only_any* attached_context() noexcept;
};

}  // namespace gyre::net
