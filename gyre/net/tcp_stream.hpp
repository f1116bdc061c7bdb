// SPDX-License-Identifier: Apache-2.0
// tcp_stream: a TCP connection for coroutines.
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

#include <memory>
#include <utility>

namespace gyre::net {

namespace detail {
class stream_maker;
}  // namespace detail

/// A connected socket as an io::stream with addresses and options.
///
/// Thread-safety, Lifetime, Errors: as io::stream; members that are not awaited belong to the
/// loop's thread, and throw std::system_error (io::errc::not_open once the stream is
/// closed).
class socket_stream : public io::stream {
 public:
  /// Return the addresses of this end and of the other end (std::errc::not_connected when the
  /// connection has been reset).
  [[nodiscard]] endpoint local_endpoint() const { return options().local_endpoint(); }
  [[nodiscard]] endpoint peer_endpoint() const { return options().peer_endpoint(); }
  /// Returns a reference for reading and setting options. Valid until the stream is closed.
  [[nodiscard]] socket_ref options() const {
    return socket_ref(io::detail::opened(descriptor(), "gyre::net::socket_stream").fd());
  }

  /// Ends one direction, or both. The end of sending (FIN) follows all written bytes. Operations
  /// that wait complete: reads with the end of the stream, writes with std::errc::broken_pipe.
  void shutdown(shutdown_side side) { detail::shut_down(options().fd(), side); }
  /// Closes with a RST, without sending unsent bytes. Otherwise does what close() does.
  void reset() noexcept {
    if (is_open()) detail::reset_when_closed(fd());
    close();
  }

 protected:
  socket_stream() noexcept = default;
  socket_stream(event_loop& loop, socket connection, io::handle_kind kind)
      : stream(std::make_unique<io::detail::open_descriptor>(loop, connection.release(), kind)) {}
  explicit socket_stream(io::detail::owned_descriptor descriptor) noexcept
      : stream(std::move(descriptor)) {}
};

/// A TCP connection, made by connect() or tcp_listener::accept(). Closing it sends all written
/// bytes and a FIN. If received bytes are unread, or the peer continues to send, the kernel sends a
/// RST, and may drop written bytes: shut down sending, and read to the end, before. Thread-safety,
/// Lifetime,
/// Errors: as socket_stream.
class tcp_stream : public socket_stream {
 public:
  /// Constructs a closed stream.
  tcp_stream() noexcept = default;
  /// Serves a connected, non-blocking socket on `loop`. To hand a connection to another loop, give
  /// `connection.release()` to that loop's thread, and make a stream of it there. Throws
  /// std::bad_alloc, and then closes it. A socket that the loop cannot watch ends the operations
  /// that would wait.
  tcp_stream(event_loop& loop, socket connection)
      : socket_stream(loop, std::move(connection), io::handle_kind::stream_socket) {}
  tcp_stream(event_loop& loop, unique_fd connection)
      : tcp_stream(loop, socket(std::move(connection))) {}

 private:
  friend detail::stream_maker;
  using socket_stream::socket_stream;
};

namespace detail {

/// Makes streams from descriptors that a loop serves already.
class stream_maker {
 public:
  template <class Stream>
  static Stream make(io::detail::owned_descriptor descriptor) noexcept {
    return Stream(std::move(descriptor));
  }
};

}  // namespace detail
}  // namespace gyre::net
