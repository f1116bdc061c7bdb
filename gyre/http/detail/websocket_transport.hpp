// SPDX-License-Identifier: Apache-2.0
// websocket_transport: what a WebSocket needs of the connection or the stream that carries it.
#pragma once

#include <gyre/task/task.hpp>

#include <cstddef>
#include <span>

namespace gyre::http::detail {

/// The bytes of a WebSocket in both directions: an upgraded connection of HTTP/1.1, a connection of
/// a client, or a stream of another protocol. One receive() and one send() may run at the same
/// time.
///
/// Thread-safety: the loop's thread.
class websocket_transport {
 public:
  websocket_transport() = default;
  websocket_transport(const websocket_transport&) = delete;
  websocket_transport& operator=(const websocket_transport&) = delete;
  virtual ~websocket_transport() = default;

  /// Waits for bytes, which are valid until the next call; none at the end of the peer's side. A
  /// stopped call has lost no byte.
  virtual task<std::span<const std::byte>> receive() = 0;
  /// Sends all bytes, and waits while the peer does not read. After a stop or a failure, it is
  /// unknown how many were sent.
  virtual task<> send(std::span<const std::byte> bytes) = 0;
  /// Whether bytes that were sent leave even if the transport fails right afterwards.
  virtual bool keeps_output() const noexcept { return true; }
};

}  // namespace gyre::http::detail
