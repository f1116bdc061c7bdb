// SPDX-License-Identifier: Apache-2.0
// tls_stream: a TLS connection for coroutines, made by tls::connect() or tls::accept().
//
//     auto secure = co_await gyre::tls::connect(server, context);  // such as "example.org:443"
//     co_await secure.write_all("GET / HTTP/1.0\r\n\r\n");
//     auto reply = co_await secure.receive();
//     co_await secure.shutdown();
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/connection_info.hpp>
#include <gyre/tls/session.hpp>
#include <gyre/tls/tls_context.hpp>

#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::net {
class resolver;
}  // namespace gyre::net

namespace gyre::tls {

namespace detail {
class stream_state;
}  // namespace detail

/// A move-only stream of bytes with the members of net::tcp_stream, encrypted (docs/guide/tls.md
/// tells which ones it lacks). One coroutine may read while another one writes. Received ciphertext
/// is decrypted out of the loop's memory, the records of a write leave with one send, and a stream
/// that waits holds no buffer. Rarely, a write or shutdown() waits for the peer: OpenSSL sends
/// nothing between two parts of a TLS message, such as a long session ticket.
///
/// Each operation is a task, which with_timeout() limits and a stop token stops. A read that was
/// stopped has lost no byte. A write that was stopped may have sent a part of its bytes, and the
/// rest of its record goes before the next write: close such a stream, or write on behind it.
///
/// Thread-safety, Lifetime: as io::stream; tasks must be awaited on the loop's thread, and may
/// outlive the stream, whose end they then report.
/// Errors: those of io::stream, and
/// - errc::truncated from reads if the connection ends without the peer's close_notify. A protocol
///   that marks the ends of its messages may ignore that between two of them.
/// - errc::bad_record, errc::refused_by_peer and the like, after which nothing can be read or
///   written. In TLS 1.3 a server's refusal of the client's certificate comes to the first read, or
///   to a write that fails because the server has gone.
///
/// Complexity: some 10 KiB of OpenSSL's for each connection, and 44 KiB within the handshake, but
/// nothing before a server's peer has sent its first bytes; besides, each operation allocates a
/// coroutine frame of the slab.
class tls_stream {
 public:
  /// A closed stream.
  tls_stream() noexcept = default;
  tls_stream(tls_stream&& other) noexcept = default;
  tls_stream& operator=(tls_stream&& other) noexcept;
  ~tls_stream();

  [[nodiscard]] bool is_open() const noexcept;
  /// -1 when it is closed.
  [[nodiscard]] int fd() const noexcept;
  /// These throw io::errc::not_open when it is closed.
  [[nodiscard]] event_loop& loop() const;
  [[nodiscard]] net::endpoint local_endpoint() const;
  [[nodiscard]] net::endpoint peer_endpoint() const;
  [[nodiscard]] net::socket_ref options() const;
  [[nodiscard]] connection_info info() const;
  /// The newest session of a client, to be resumed later; none while the server has sent none. With
  /// TLS 1.3 it comes with the first bytes that are read, or after the handshake in a read.
  [[nodiscard]] tls::session session() const;

  /// Waits for at least one byte, and reads up to `bytes.size()`. Gives their count; 0: the peer
  /// has ended its side by close_notify.
  [[nodiscard]] task<std::size_t> read_some(std::span<std::byte> bytes);
  /// Fills `bytes`. Errors: io::errc::unexpected_end if the peer ends its side before.
  [[nodiscard]] task<std::size_t> read_exactly(std::span<std::byte> bytes);
  /// As io::stream::read_until(), but receives 16 KiB more than `limit` at most.
  [[nodiscard]] task<std::size_t> read_until(io::buffer& buffer, std::string_view delimiter,
                                             std::size_t limit = 64 * 1024);
  /// Gives decrypted bytes in memory of the loop; without bytes, that is the end of the stream.
  [[nodiscard]] task<io::received> receive();

  /// Waits until read_some() need not wait: for decrypted bytes, the end, or a failure, which the
  /// next read tells. Counts as reading. A record that has come is held until it is read.
  [[nodiscard]] task<> wait_readable();
  /// Whether it is open, and neither bytes, nor the end, nor a failure can be read; for a pool,
  /// before another use. Processes records that are not the program's, such as session tickets.
  /// False while a coroutine reads. Thread-safety: the loop's thread. One or two system calls.
  [[nodiscard]] bool is_quiet() noexcept;

  /// Encrypts and sends the first 256 KiB, or less; gives their count.
  [[nodiscard]] task<std::size_t> write_some(std::span<const std::byte> bytes);
  [[nodiscard]] task<std::size_t> write_some(std::string_view text) {
    return write_some(std::as_bytes(std::span(text)));
  }
  [[nodiscard]] task<std::size_t> write(std::span<const std::byte> bytes) {
    return write_some(bytes);
  }
  [[nodiscard]] task<std::size_t> write(std::string_view text) { return write_some(text); }
  /// Writes all bytes, with one send for each 256 KiB; gives their count.
  [[nodiscard]] task<std::size_t> write_all(std::span<const std::byte> bytes);
  [[nodiscard]] task<std::size_t> write_all(std::string_view text) {
    return write_all(std::as_bytes(std::span(text)));
  }
  /// Several pieces, which share records.
  [[nodiscard]] task<std::size_t> write_all(std::span<const iovec> pieces);
  [[nodiscard]] task<std::size_t> write_all(io::received&& bytes);
  /// Reads parts of 64 KiB of the file, and writes them; otherwise as io::stream::send_file().
  [[nodiscard]] task<std::size_t> send_file(int file, ::off_t offset, std::size_t count);

  /// Ends this side: sends close_notify and a FIN. The peer may still send, until reads give 0.
  [[nodiscard]] task<> shutdown();
  /// Sends close_notify if that needs no wait, and closes. Operations that wait end with
  /// io::errc::closed. Idempotent.
  void close() noexcept;
  /// Closes with a RST, without close_notify.
  void reset() noexcept;

 private:
  friend detail::stream_state;
  explicit tls_stream(std::shared_ptr<detail::stream_state> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<detail::stream_state> state_;
};

/// The server's handshake over an accepted connection. Its steps, like a client's, wait for their
/// turns (loop_options::heavy_time): many that begin at once leave the loop's other work its share.
///
/// Errors: errc::handshake_timeout after server_options::handshake_timeout, and the other errc of
/// handshakes, with a text that says more; those of io::stream; gyre::operation_cancelled after a
/// stop. The connection is then closed, after an alert to the peer.
[[nodiscard]] task<tls_stream> accept(net::tcp_stream accepted, const tls_context& context);

/// The client's handshake over a connection to `host`, a name or an address, which goes to the
/// server (SNI) and which the certificate must be for. `resumed`: a session with that server.
///
/// Errors: as accept(), and those of certificates: "certificate is for a.example, not b.example".
[[nodiscard]] task<tls_stream> connect(net::tcp_stream connected, std::string host,
                                       const tls_context& context = tls_context::default_client(),
                                       const session& resumed = session());

namespace detail {
task<tls_stream> connect_text(net::resolver* names, std::string to, tls_context context,
                              session resumed);
}  // namespace detail

/// Connects, as net::connect() does, and makes the handshake: "example.org:443", "10.1.2.3:8443".
/// Errors also: those of net::connect().
template <std::convertible_to<std::string_view> Text>
[[nodiscard]] task<tls_stream> connect(const Text& to,
                                       const tls_context& context = tls_context::default_client(),
                                       const session& resumed = session()) {
  return detail::connect_text(nullptr, std::string(std::string_view(to)), context, resumed);
}
/// As above, with a resolver, which remembers answers.
template <std::convertible_to<std::string_view> Text>
[[nodiscard]] task<tls_stream> connect(net::resolver& names, const Text& to,
                                       const tls_context& context = tls_context::default_client(),
                                       const session& resumed = session()) {
  return detail::connect_text(&names, std::string(std::string_view(to)), context, resumed);
}

}  // namespace gyre::tls
