// SPDX-License-Identifier: Apache-2.0
// client_connection: a connection of a client's pool, by TCP or by TLS.
#pragma once

#include <gyre/io/buffer.hpp>
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

  /// Waits for bytes, appends them to `input`, and gives their count; 0 is the end of the stream.
  task<std::size_t> read();
  /// Waits until some of the bytes can be written, and gives their count.
  task<std::size_t> write_some(std::span<const std::byte> bytes);
  /// Whether it is open, and nothing has come from the peer while it was idle; for the pool.
  bool is_reusable() const;
  /// The stream for TLS; only of a connection by TCP, which is left closed.
  net::tcp_stream take_tcp() noexcept { return std::get<net::tcp_stream>(std::move(stream_)); }

  io::buffer input{{.prepend = 0}};  ///< received, and not read yet

 private:
  // Keeps each session once, as another connection may have used the last one.
  void keep_session() const noexcept;
  static task<std::size_t> write_tcp(net::tcp_stream& stream, std::span<const std::byte> bytes);

  // Mutable, as the pool asks a constant connection whether it is quiet, which reads messages of
  // TLS.
  mutable std::variant<net::tcp_stream, tls::tls_stream> stream_;
  mutable const void* kept_session_ = nullptr;  // one that the stream still has
  std::shared_ptr<tls::session> newest_session_;
};

using client_lease = net::pooled_connection<client_connection>;

}  // namespace gyre::http::detail
