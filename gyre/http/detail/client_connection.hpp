// SPDX-License-Identifier: Apache-2.0
// client_connection: a connection of a client's pool, by TCP or by TLS.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/connection_pool.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/session.hpp>
#include <gyre/tls/tls_stream.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <variant>

namespace gyre::http::detail {

/// A stream that a client reads and writes, at the same time if need be, with the bytes that were
/// received and not read yet. A read or write that was stopped has moved no byte. Destroyed, it
/// closes.
///
/// Thread-safety: the loop's thread.
class client_connection {
 public:
  explicit client_connection(net::tcp_stream stream) noexcept : stream_(std::move(stream)) {}
  /// `newest_session`: gets the session to resume, which comes with bytes that are read.
  client_connection(tls::tls_stream stream, std::shared_ptr<tls::session> newest_session)
      : stream_(std::move(stream)), newest_session_(std::move(newest_session)) {
    keep_session();
  }

  /// Waits for bytes, as request_clock::wait() does; none are the end of the stream. They are for
  /// keep().
  task<io::received> receive(const request_clock& clock, steady_time expiry, const char* phase) {
    return std::visit([&](auto& stream) { return clock.wait(stream.receive(), expiry, phase); },
                      stream_);
  }
  /// Appends received bytes to `input`.
  void keep(const io::received& bytes) {
    keep_session();
    input.append(bytes.bytes());
  }
  /// Waits until some of the bytes can be written, and gives their count.
  task<std::size_t> write_some(std::span<const std::byte> bytes, const request_clock& clock,
                               steady_time expiry, const char* phase) {
    return std::visit(
        [&](auto& stream) { return clock.wait(stream.write_some(bytes), expiry, phase); }, stream_);
  }
  /// Whether it is open, and nothing has come from the peer while it was idle; for the pool.
  bool is_reusable() const;
  /// The stream for TLS; only of a connection by TCP, which is left closed.
  net::tcp_stream take_tcp() noexcept { return std::get<net::tcp_stream>(std::move(stream_)); }

  io::buffer input{{.prepend = 0}};  ///< received, and not read yet

 private:
  // Keeps each session once, as another connection may have used the last one.
  void keep_session() const noexcept;

  // Mutable, as the pool asks a constant connection whether it is quiet, which reads messages of
  // TLS.
  mutable std::variant<net::tcp_stream, tls::tls_stream> stream_;
  mutable const void* kept_session_ = nullptr;  // one that the stream still has
  std::shared_ptr<tls::session> newest_session_;
};

using client_lease = net::pooled_connection<client_connection>;

}  // namespace gyre::http::detail
