// SPDX-License-Identifier: Apache-2.0
// layered_stream: a connection with a protocol between its bytes and those of the program, for
// coroutines.
//
//     auto peer = co_await gyre::net::connect(server);
//     auto stream = co_await gyre::net::open_layer(std::move(peer), std::make_unique<mask>());
//     co_await stream.write_all("hello\n");
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/layer.hpp>
#include <gyre/net/released_connection.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace gyre::net {

namespace detail {
class layered_core;
}  // namespace detail

/// A move-only stream of bytes with the members of tcp_stream, above a layer. One coroutine may
/// read while another one writes. The layer reads received bytes out of the loop's memory, one
/// write makes one send, and a stream that waits holds no buffer. While the layer may not write,
/// write() and shutdown() wait for the peer.
///
/// Each operation is a task, which with_timeout() limits and a stop token stops. A read that was
/// stopped has lost no byte. A write that was stopped may have sent a part of its bytes, and the
/// rest of its record goes before the next write: close such a stream, or continue to write.
///
/// Thread-safety, Lifetime: as io::stream; tasks must be awaited on the loop's thread, and may
/// outlive the stream: then they fail with io::errc::closed or not_open.
/// Errors: those of io::stream; the layer's, after which nothing can be read or written; from
/// reads, its error of an end that comes too early; io::errc::output_limit if the peer causes more
/// than 64 KiB of replies that it does not read. A stream that was never open, or was moved from,
/// throws io::errc::not_open from the call itself, not from the await.
/// Complexity: each operation allocates a coroutine frame of the slab.
class layered_stream {
 public:
  /// Constructs a closed stream.
  layered_stream() noexcept = default;
  /// Serves on `loop` the socket and the layer of a connection that its owner has released.
  /// `released.received` keeps its bytes, which precede those of the stream. Throws
  /// std::invalid_argument without a layer, std::bad_alloc.
  layered_stream(event_loop& loop, released_connection& source);
  layered_stream(layered_stream&& other) noexcept = default;
  layered_stream& operator=(layered_stream&& other) noexcept;
  ~layered_stream();

  [[nodiscard]] bool is_open() const noexcept;
  /// Returns the descriptor, or -1 when the stream is closed.
  [[nodiscard]] int fd() const noexcept;
  /// The functions below throw io::errc::not_open when the stream is closed.
  [[nodiscard]] event_loop& loop() const;
  [[nodiscard]] endpoint local_endpoint() const;
  [[nodiscard]] endpoint peer_endpoint() const;
  [[nodiscard]] socket_ref options() const;
  /// Returns the layer of this end; null when the stream was never open, was moved from, or was
  /// released.
  [[nodiscard]] const net::layer* layer() const noexcept;

  /// Waits for at least one byte, reads up to `bytes.size()`, and gives the number of bytes. 0
  /// means that the peer has ended its side.
  [[nodiscard]] task<std::size_t> read_some(std::span<std::byte> bytes);
  /// Fills `bytes`. Errors: io::errc::unexpected_end if the peer ends its side first.
  [[nodiscard]] task<std::size_t> read_exactly(std::span<std::byte> bytes);
  /// Does what io::stream::read_until() does, but receives at most 16 KiB more than `limit`.
  [[nodiscard]] task<std::size_t> read_until(io::buffer& buffer, std::string_view delimiter,
                                             std::size_t limit = 64 * 1024);
  /// Gives plain bytes in memory of the loop; no bytes mean the end of the stream.
  [[nodiscard]] task<io::received> receive();

  /// Waits until read_some() need not wait: for plain bytes, the end, or a failure, which the next
  /// read reports. Counts as reading. Bytes that have come are held until they are read.
  [[nodiscard]] task<> wait_readable();
  /// Whether the stream is open, and neither bytes, nor the end, nor a failure can be read. A pool
  /// asks this before another use. The layer reads what is not the program's, such as session
  /// tickets of TLS. False while a coroutine reads. Thread-safety: the loop's thread. One or two
  /// system calls.
  [[nodiscard]] bool is_quiet() noexcept;

  /// Sends at most the first 256 KiB of the bytes, and gives the number of sent bytes.
  [[nodiscard]] task<std::size_t> write_some(std::span<const std::byte> bytes);
  [[nodiscard]] task<std::size_t> write_some(std::string_view text) {
    return write_some(std::as_bytes(std::span(text)));
  }
  /// Sends like write_some().
  [[nodiscard]] task<std::size_t> write(std::span<const std::byte> bytes) {
    return write_some(bytes);
  }
  [[nodiscard]] task<std::size_t> write(std::string_view text) { return write_some(text); }
  /// Writes all bytes, with one send for each 256 KiB, and gives their number.
  [[nodiscard]] task<std::size_t> write_all(std::span<const std::byte> bytes);
  [[nodiscard]] task<std::size_t> write_all(std::string_view text) {
    return write_all(std::as_bytes(std::span(text)));
  }
  /// Writes several pieces, of which small ones share a record.
  [[nodiscard]] task<std::size_t> write_all(std::span<const iovec> pieces);
  [[nodiscard]] task<std::size_t> write_all(io::received&& bytes);
  /// Reads parts of 64 KiB of the file, and writes them. Otherwise does what
  /// io::stream::send_file() does.
  [[nodiscard]] task<std::size_t> send_file(int file, ::off_t offset, std::size_t count);

  /// Ends this side: sends the end of the layer and a FIN. The peer may still send, until a read
  /// gives 0.
  [[nodiscard]] task<> shutdown();
  /// Sends the layer's end if that needs no wait, and closes. Operations that wait end with
  /// io::errc::closed. Idempotent.
  void close() noexcept;
  /// Closes with a RST, without the layer's end.
  void reset() noexcept;
  /// Closes the stream, but returns its socket and layer for another owner, such as
  /// tcp_server::adopt(). A closed stream returns none.
  ///
  /// Errors: throws std::system_error (std::errc::operation_in_progress), and changes nothing,
  /// while a coroutine reads or writes, or output of the layer waits; io::errc::not_open after
  /// shutdown() or a failure of the layer.
  [[nodiscard]] released_connection release();

 protected:
  explicit layered_stream(std::shared_ptr<detail::layered_core> core) noexcept
      : core_(std::move(core)) {}

 private:
  friend task<layered_stream> open_layer(tcp_stream connection,
                                         std::unique_ptr<net::layer> protocol_layer);

  std::shared_ptr<detail::layered_core> core_;
};

/// Makes the layer's handshake, if it has one, over a connection. Its steps wait for their turns
/// (loop_options::heavy_time), so that many handshakes at once leave the other work of the loop its
/// share.
///
/// Thread-safety: to be awaited on the connection's loop.
/// Errors: std::invalid_argument without a layer; io::errc::not_open; the layer's; its
/// timeout_error() after its handshake_timeout(); those of io::stream; gyre::operation_cancelled
/// after a stop. The connection is then closed, after the layer's last message.
/// Complexity: one block for the stream, and coroutine frames until the handshake is done.
[[nodiscard]] task<layered_stream> open_layer(tcp_stream connection,
                                              std::unique_ptr<net::layer> protocol_layer);

}  // namespace gyre::net
