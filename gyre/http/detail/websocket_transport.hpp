// SPDX-License-Identifier: Apache-2.0
// websocket_transport: what a WebSocket needs of the connection or the stream that carries it.
#pragma once

#include <gyre/http/detail/input_receiver.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace gyre::http::detail {

/// The bytes of a WebSocket in both directions: an upgraded connection of HTTP/1.1, a connection of
/// a client, or a stream of another protocol. One wait for input and one send() may run at the same
/// time.
///
/// Thread-safety: the loop's thread.
class websocket_transport {
 public:
  websocket_transport() = default;
  websocket_transport(const websocket_transport&) = delete;
  websocket_transport& operator=(const websocket_transport&) = delete;
  virtual ~websocket_transport() = default;

  /// Returns the bytes that have come and were not consumed.
  virtual std::span<const std::byte> input() const noexcept = 0;
  virtual void consume(std::size_t count) noexcept = 0;
  /// Whether no byte follows those of input(). Throws the error of a connection that has failed.
  virtual bool has_ended() const = 0;
  /// Waits until input() has bytes or has_ended(). Two forms, because a coroutine of its own costs
  /// memory for each idle socket: either passes bytes and the end to `receiver` until end_wait(),
  /// and returns nothing; or returns a task to await, which interrupt() ends. A task that was
  /// stopped has lost no byte.
  virtual std::optional<task<>> begin_wait(input_receiver& receiver) = 0;
  virtual void end_wait() noexcept = 0;
  virtual void interrupt() noexcept = 0;
  /// Sends all bytes. Returns nothing if they were taken at once; otherwise a task that waits while
  /// the peer does not read, during which the bytes must stay. After a stop or a failure, it is
  /// unknown how many were sent. Bytes that were taken leave, even if the socket fails afterwards.
  [[nodiscard]] virtual std::optional<task<>> send(std::span<const std::byte> bytes) = 0;
};

}  // namespace gyre::http::detail
