// SPDX-License-Identifier: Apache-2.0
// client_connection: a connection of a client's pool, over TCP or TLS.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/as_task.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/session.hpp>
#include <gyre/tls/tls_stream.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <variant>

namespace gyre::http::detail {

/// The stream of a connection, and its received bytes that were not read. One read and one write
/// may run at the same time. A stopped read or write has moved no byte. The destructor closes the
/// connection.
///
/// Thread-safety: the loop's thread.
class client_connection {
 public:
  explicit client_connection(net::tcp_stream stream) noexcept : stream_(std::move(stream)) {}
  /// `newest_session`: receives the session that the next connection may resume. The server sends
  /// sessions between other bytes, so that each read may bring a new one.
  client_connection(tls::tls_stream stream, std::shared_ptr<tls::session> newest_session)
      : stream_(std::move(stream)), newest_session_(std::move(newest_session)) {
    keep_session();
  }

  /// Whether the connection is one of HTTP/2, which ALPN or the options have chosen.
  bool is_http2() const noexcept { return is_http2_; }
  void set_http2() noexcept { is_http2_ = true; }

  /// Waits for bytes, with the time limits of request_clock::wait(). No bytes mean the end of the
  /// stream. Pass the result to keep().
  task<io::received> receive(const request_clock& clock, steady_time expiry, const char* phase) {
    return std::visit([&](auto& stream) { return clock.wait(stream.receive(), expiry, phase); },
                      stream_);
  }
  /// Appends received bytes to `input`, and stores a new TLS session.
  void keep(const io::received& bytes) {
    keep_session();
    input.append(bytes.bytes());
  }
  /// Waits for bytes without a time limit. Pass the result to note_received().
  task<io::received> receive() {
    return std::visit([](auto& stream) { return as_task(stream.receive()); }, stream_);
  }
  /// Stores a new TLS session, which may have come before received bytes.
  void note_received() const noexcept { keep_session(); }
  /// Waits without a time limit until the stream takes some of the bytes, and returns their number.
  task<std::size_t> write_some(std::span<const std::byte> bytes) {
    return std::visit([&](auto& stream) { return as_task(stream.write_some(bytes)); }, stream_);
  }
  /// Waits until the stream takes some of the bytes, and returns their number.
  task<std::size_t> write_some(std::span<const std::byte> bytes, const request_clock& clock,
                               steady_time expiry, const char* phase) {
    return std::visit(
        [&](auto& stream) { return clock.wait(stream.write_some(bytes), expiry, phase); }, stream_);
  }
  /// Waits until the stream has taken all bytes, for each part of them at most `limit`; zero means
  /// no limit.
  task<> write_all(std::span<const std::byte> bytes, const request_clock& clock,
                   std::chrono::nanoseconds limit, const char* phase);
  /// Waits until something can be read. The connection_pool calls it while the connection is idle.
  task<> wait_readable() {
    return std::visit([](auto& stream) { return as_task(stream.wait_readable()); }, stream_);
  }
  /// Whether the connection is open, and nothing has come from the peer while the connection was
  /// idle. Called by the connection_pool.
  bool is_reusable() const;
  /// Moves the TCP stream out, to run TLS over it. The connection must be one over TCP; it is
  /// closed afterwards.
  net::tcp_stream take_tcp() noexcept { return std::get<net::tcp_stream>(std::move(stream_)); }

  io::buffer input{{.prepend = 0}};  ///< the received bytes that were not read yet

 private:
  // Stores the newest TLS session for the next connection. Stores each session only once, because
  // another connection may have used it already.
  void keep_session() const noexcept;

  // Mutable, because is_reusable() is const and calls is_quiet(), which reads TLS messages.
  mutable std::variant<net::tcp_stream, tls::tls_stream> stream_;
  mutable const void* kept_session_ = nullptr;  // the last stored session, which the stream owns
  std::shared_ptr<tls::session> newest_session_;
  bool is_http2_ = false;
};

using client_lease = net::pooled_connection<client_connection>;

}  // namespace gyre::http::detail
