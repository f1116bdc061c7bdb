// SPDX-License-Identifier: Apache-2.0
// exchange_stream: what carries one exchange: the connection in HTTP/1.1, which carries one
// exchange at a time, or a stream of HTTP/2.
#pragma once

#include <gyre/http/detail/body_source.hpp>
#include <gyre/http/detail/connection_protocol.hpp>
#include <gyre/http/detail/message_framing.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace gyre::net {
class tcp_connection;
}  // namespace gyre::net

namespace gyre::http {
class response;

namespace detail {

class exchange;
class server_core;
class server_shard;

/// The outcome of exchange_stream::write(): whether the bytes were taken, and whether the writer
/// must wait for exchange::on_low_water(), after which bytes that were not taken are written again.
enum class write_outcome : std::uint8_t { taken, taken_and_full, full };

/// The functions by which an exchange sends its response, and tells how far it has come. An
/// exchange calls them on the loop's thread, until on_exchange_ended(), or until detach() was
/// called.
class exchange_stream {
 public:
  exchange_stream(net::tcp_connection& tcp, server_shard& shard) noexcept
      : tcp_(tcp), shard_(shard) {}
  exchange_stream(const exchange_stream&) = delete;
  exchange_stream& operator=(const exchange_stream&) = delete;

  net::tcp_connection& tcp() const noexcept { return tcp_; }
  server_shard& shard() const noexcept { return shard_; }

  /// Returns the core for an exchange that outlives the stream, which holds it until its handler
  /// has ended.
  [[nodiscard]] virtual std::shared_ptr<server_core> share_core() const = 0;
  /// Whether the peer may still get bytes of the response.
  [[nodiscard]] virtual bool can_send() const noexcept = 0;
  /// Whether no further exchange follows on the connection.
  [[nodiscard]] virtual bool must_close() const noexcept = 0;

  /// Sends "100 Continue".
  virtual void send_continue() = 0;
  /// Sends the head of a response, and its body if that is whole in memory. Calls
  /// exchange::begin_body().
  virtual void send(exchange& sender, response& result) = 0;
  /// Called after send(), if the body is written in parts.
  virtual void begin_stream() = 0;
  /// Called after send(). Sends source.count bytes of source.file.
  virtual void send_file(body_source& source) = 0;
  /// Sends a part of the body.
  [[nodiscard]] virtual write_outcome write(message_writer& framing,
                                            std::span<const std::byte> bytes) = 0;
  /// Called after the last part of the body.
  virtual void end_body(const message_writer& framing, const http::fields& trailers) = 0;
  /// Ends the response in a way that the peer cannot take for its regular end.
  virtual void abort() noexcept = 0;

  /// Called when the handler waits for bytes of a streamed body. Resumes the time limit of the
  /// body.
  virtual void want_body() = 0;
  /// Called when the handler has taken bytes of a streamed body.
  virtual void on_body_taken(std::size_t count) noexcept = 0;
  /// Called when the exchange has ended by an upgrade, and is not used afterwards. The connection
  /// then belongs to `successor`. HTTP/1.1 only.
  virtual void hand_over(connection_protocol_pointer successor) noexcept = 0;
  /// Called when the exchange has ended, which is not used afterwards.
  virtual void on_exchange_ended(keep_alive future) noexcept = 0;

 protected:
  ~exchange_stream() = default;

  net::tcp_connection& tcp_;
  server_shard& shard_;
};

}  // namespace detail
}  // namespace gyre::http
