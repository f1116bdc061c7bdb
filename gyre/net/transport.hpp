// SPDX-License-Identifier: Apache-2.0
// transport: a protocol between the callbacks of connections and their sockets, such as TLS.
//
//     gyre::net::tcp_server_options options;
//     options.transport = gyre::tls::server_transport(context);
#pragma once

#include <gyre/io/buffer.hpp>
#include <gyre/net/endpoint.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

namespace gyre::net {

/// The protocol's state for one connection. It appends what is to be sent to `to_send`. After an
/// error, which ends the connection, that may be the protocol's last message.
///
/// Thread-safety: called by one thread at a time, of the connection's loop.
class transport_filter {
 public:
  transport_filter() noexcept = default;
  transport_filter(const transport_filter&) = delete;
  transport_filter& operator=(const transport_filter&) = delete;
  virtual ~transport_filter() = default;

  /// Goes on with the handshake. Called without bytes first. Bytes that come after the handshake's
  /// are kept for open(). Throws std::bad_alloc, as do the others.
  virtual std::error_code shake_hands(std::span<const std::byte> received, io::buffer& to_send) = 0;
  /// Bytes of memory that the handshake holds, roughly, for the memory limit of a server; 0 once it
  /// is done.
  virtual std::size_t held_by_handshake() const noexcept { return 0; }
  /// Whether shake_hands() has come to a good end.
  virtual bool is_established() const noexcept = 0;

  /// Decrypts all that has been received, and appends it to `plain`.
  virtual std::error_code open(std::span<const std::byte> received, io::buffer& plain,
                               io::buffer& to_send) = 0;
  /// Whether the peer has announced the end of its bytes, in a way that nobody can forge.
  virtual bool has_ended() const noexcept = 0;
  /// Whether seal() and seal_end() may be called. If not, open() must have more bytes first, and
  /// gives no plain ones before that.
  virtual bool may_seal() const noexcept = 0;
  /// Encrypts bytes.
  virtual std::error_code seal(std::span<const std::byte> plain, io::buffer& to_send) = 0;
  /// Announces the end of this side's bytes; further calls do nothing.
  virtual void seal_end(io::buffer& to_send) = 0;
  /// The error if the peer's bytes end now; none after has_ended().
  virtual std::error_code end_of_bytes() const noexcept = 0;
};

/// Makes the filters of a server's or a client's connections.
///
/// Thread-safety: any thread.
class transport {
 public:
  transport() noexcept = default;
  transport(const transport&) = delete;
  transport& operator=(const transport&) = delete;
  virtual ~transport() = default;

  /// `host`: the server's name or address, for a client. Throws std::system_error, std::bad_alloc.
  virtual std::unique_ptr<transport_filter> make_filter(std::string_view host) const = 0;
  /// The limit of a handshake, and the error above it.
  virtual std::chrono::nanoseconds handshake_timeout() const noexcept = 0;
  virtual std::error_code timeout_error() const noexcept = 0;
  /// Called on the loop when a server's handshake has failed; a client reports that itself.
  /// `filter` may be null.
  virtual void handshake_failed(const endpoint& peer, std::error_code why,
                                const transport_filter* filter) const = 0;
};

}  // namespace gyre::net
