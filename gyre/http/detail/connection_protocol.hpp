// SPDX-License-Identifier: Apache-2.0
// connection_protocol: the version of HTTP on one connection of a server: server_connection for
// HTTP/1.1, http2_connection for HTTP/2, and websocket_protocol after an upgrade.
#pragma once

#include <gyre/io/input.hpp>

#include <memory>

namespace gyre::http::detail {

/// The context of a tcp_connection, which the callbacks of the TCP server call.
///
/// Thread-safety: the loop's thread.
class connection_protocol {
 public:
  connection_protocol() = default;
  connection_protocol(const connection_protocol&) = delete;
  connection_protocol& operator=(const connection_protocol&) = delete;
  virtual ~connection_protocol() = default;

  /// Called when the connection does not need the protocol any more. Destroys the object, at once
  /// or when its coroutine has ended.
  virtual void release() noexcept { delete this; }
  /// May replace the protocol of the connection, which releases this object before the call
  /// returns.
  virtual void on_message(io::input& input) = 0;
  virtual void on_peer_ended() = 0;
  virtual void on_low_water() = 0;
  /// Called when the connection has ended, unless the server was destroyed before.
  virtual void on_closed() noexcept {}
  /// Called when the server's stop begins. Requests a stop at the shard's `stopping`: handlers can
  /// observe its token.
  virtual void begin_stop() noexcept = 0;
  /// Called when the server stops and all input that had arrived was delivered. Closes the
  /// connection if no request waits for its response.
  virtual void drain() = 0;
  /// Sends the bytes of the connection that wait in server_shard::output. Resets the connection if
  /// there is no memory.
  virtual void flush_output() noexcept {}

  struct releaser {
    void operator()(connection_protocol* protocol) const noexcept { protocol->release(); }
  };
};

using connection_protocol_pointer =
    std::unique_ptr<connection_protocol, connection_protocol::releaser>;

}  // namespace gyre::http::detail
