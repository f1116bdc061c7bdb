// SPDX-License-Identifier: Apache-2.0
// client_stream: the bytes of a client's connection, by TCP or by TLS; client_connection, with the
// bytes that were received too early.
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>
#include <gyre/tls/session.hpp>
#include <gyre/tls/tls_stream.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace gyre::http::detail {

/// A stream that a client reads and writes, at the same time if need be. A read or write that was
/// stopped has moved no byte. Destroyed, it closes.
///
/// Thread-safety: the loop's thread.
class client_stream {
 public:
  client_stream() = default;
  client_stream(const client_stream&) = delete;
  client_stream& operator=(const client_stream&) = delete;
  virtual ~client_stream() = default;

  /// Waits for bytes, appends them, and gives their count; 0 is the end of the stream.
  virtual task<std::size_t> read(io::buffer& into) = 0;
  /// Waits until some of the bytes can be written, and gives their count.
  virtual task<std::size_t> write_some(std::span<const std::byte> bytes) = 0;
  /// Whether it is open, and nothing has come from the peer while it was idle.
  virtual bool is_idle() noexcept = 0;
  /// The stream below TLS, which then is left closed; only of a tcp_client_stream.
  virtual net::tcp_stream take_tcp() noexcept { return {}; }
};

class tcp_client_stream final : public client_stream {
 public:
  explicit tcp_client_stream(net::tcp_stream connected) noexcept : stream_(std::move(connected)) {}

  task<std::size_t> read(io::buffer& into) override;
  task<std::size_t> write_some(std::span<const std::byte> bytes) override;
  bool is_idle() noexcept override;
  net::tcp_stream take_tcp() noexcept override { return std::move(stream_); }

 private:
  net::tcp_stream stream_;
};

class tls_client_stream final : public client_stream {
 public:
  /// `newest`: gets the session to resume, which comes with bytes that are read.
  tls_client_stream(tls::tls_stream connected, std::shared_ptr<tls::session> newest)
      : stream_(std::move(connected)), newest_session_(std::move(newest)) {
    keep_session();
  }

  task<std::size_t> read(io::buffer& into) override;
  task<std::size_t> write_some(std::span<const std::byte> bytes) override;
  bool is_idle() noexcept override;

 private:
  // Each session once, as another connection may have used the last one.
  void keep_session() noexcept;

  tls::tls_stream stream_;
  const void* kept_ = nullptr;  // a session that the stream still has
  std::shared_ptr<tls::session> newest_session_;
};

/// A connection of a pool.
class client_connection {
 public:
  explicit client_connection(std::unique_ptr<client_stream> connected) noexcept
      : stream_(std::move(connected)) {}

  client_stream& stream() const noexcept { return *stream_; }
  /// For the pool.
  bool is_reusable() const { return in.empty() && stream_->is_idle(); }

  io::buffer in{{.prepend = 0}};  ///< received, and not read yet

 private:
  std::unique_ptr<client_stream> stream_;
};

}  // namespace gyre::http::detail
