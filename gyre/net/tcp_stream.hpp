// SPDX-License-Identifier: Apache-2.0
// A TCP connection for coroutines.
//
//     auto peer = co_await gyre::net::connect(server);  // an endpoint
//     co_await peer.write_all("hello\n");
//     peer.shutdown(gyre::net::shutdown_side::send);
//     auto reply = co_await peer.receive();
#pragma once

#include <gyre/base/unique_fd.hpp>
#include <gyre/exec/event_loop.hpp>
#include <gyre/io/stream.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <utility>

namespace gyre::net {

namespace detail {
class stream_maker;
}  // namespace detail

/// A connected socket as a stream: io::stream says how to read and write it, who may, and how that
/// ends. Adds what sockets have. What is not an operation to be awaited is a system call, on the
/// loop's thread; throws std::system_error (std::errc::bad_file_descriptor if it is closed).
class socket_stream : public io::stream {
 public:
  /// The address of this end, and of the other (std::errc::not_connected when it has been reset).
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  [[nodiscard]] endpoint peer_endpoint() const { return options().peer_endpoint(); }
  /// To ask for options and to set them. Valid until the stream is closed.
  [[nodiscard]] socket_ref options() const;

  /// Ends one way or both. What was written is sent before; who waits to read or write learns it.
  void shutdown(shutdown_side side);
  /// Closes without sending what is still to be sent; the peer gets std::errc::connection_reset.
  /// Otherwise as close().
  void reset() noexcept;

 protected:
  socket_stream() noexcept = default;
  socket_stream(event_loop& loop, socket connected, io::handle_kind kind);
  explicit socket_stream(io::detail::owned_descriptor on) noexcept : stream(std::move(on)) {}
};

/// A TCP connection, made by connect() or tcp_listener::accept(). Closing it sends what was written
/// and then ends both ways; if the peer goes on sending, it is told so by a reset.
class tcp_stream : public socket_stream {
 public:
  /// One that is closed.
  tcp_stream() noexcept = default;
  /// Serves a connected, non-blocking socket on `loop`. To hand a connection to another loop, give
  /// `connection.release()` to that loop's thread, and make a stream of it there. Throws what
  /// io::descriptor throws; then the socket is closed.
  tcp_stream(event_loop& loop, socket connected)
      : socket_stream(loop, std::move(connected), io::handle_kind::stream_socket) {}
  tcp_stream(event_loop& loop, unique_fd connected)
      : tcp_stream(loop, socket(std::move(connected))) {}

 private:
  friend detail::stream_maker;
  using socket_stream::socket_stream;
};

namespace detail {

/// Makes streams of descriptors that are served already.
class stream_maker {
 public:
  template <class Stream>
  static Stream make(io::detail::owned_descriptor on) noexcept {
    return Stream(std::move(on));
  }
};

}  // namespace detail
}  // namespace gyre::net
