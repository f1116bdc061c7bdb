// SPDX-License-Identifier: Apache-2.0
// client_stream: what carries one exchange of a client: a connection of the pool in HTTP/1.1, which
// carries one exchange at a time, or a stream of HTTP/2.
#pragma once

#include <gyre/base/clock.hpp>
#include <gyre/base/duration.hpp>
#include <gyre/http/client_request.hpp>
#include <gyre/http/detail/incoming_response.hpp>
#include <gyre/http/detail/message_writer.hpp>
#include <gyre/http/detail/request_clock.hpp>
#include <gyre/http/detail/request_head.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/fields.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <cstddef>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace gyre::http::detail {

/// The functions by which a client_exchange sends a request and receives its response. One of them
/// may send while another one receives.
///
/// Thread-safety: the loop's thread.
class client_stream {
 public:
  /// The head of a request, with the whole body if that is short.
  struct message {
    const client_request& request;
    const request_route& route;
    const message_writer& framing;
    std::string_view body = {};
  };
  struct deleter {
    void operator()(client_stream* stream) const noexcept { stream->release(); }
  };

  client_stream() = default;
  client_stream(const client_stream&) = delete;
  client_stream& operator=(const client_stream&) = delete;

  /// Whether an earlier exchange has used the connection.
  [[nodiscard]] virtual bool is_reused() const noexcept = 0;

  /// Whether the server allows an extended CONNECT (RFC 8441), for which this waits until the
  /// server has told, with the time limits of request_clock::wait(). False in HTTP/1.1.
  virtual task<bool> allows_websocket(const request_clock& clock, steady_time expiry) = 0;

  /// Sends the head. `limit`: the time in which nothing can be sent, after which the task fails
  /// with errc::timed_out; zero means no limit.
  virtual task<> send_head(message content, const request_clock& clock,
                           std::chrono::nanoseconds limit) = 0;
  /// Sends bytes of the body, which `framing` has counted.
  virtual task<> send_body(message_writer& framing, std::span<const std::byte> bytes,
                           const request_clock& clock, std::chrono::nanoseconds limit) = 0;
  /// Called after the last byte of a body that send_head() has not sent.
  virtual task<> end_body(const message_writer& framing, const http::fields& trailers,
                          const request_clock& clock, std::chrono::nanoseconds limit) = 0;
  /// Whether sending has failed because the server takes no more.
  [[nodiscard]] virtual bool has_send_failed() const noexcept = 0;

  /// Whether something was received that was not taken.
  [[nodiscard]] virtual bool has_input() noexcept = 0;
  /// Waits until something was received, with the time limits of request_clock::wait(). Returns
  /// false if the server has ended the connection, or the stream after its response.
  virtual task<bool> receive(const request_clock& clock, steady_time expiry, const char* phase) = 0;
  /// Takes the next head, an interim one included. Returns false if more must be received. Errors:
  /// those of incoming_response::take_head().
  [[nodiscard]] virtual std::expected<bool, errc> take_head(incoming_response& response) = 0;
  /// Takes the next bytes of the body, which are valid until the next call. Returns none if more
  /// must be received, or if the body has ended. Errors: those of incoming_response::take_piece().
  [[nodiscard]] virtual std::expected<std::span<const std::byte>, errc> take_piece(
      incoming_response& response) = 0;

  /// Whether the server has certainly not processed the request, so that another attempt does no
  /// harm.
  [[nodiscard]] virtual bool is_unprocessed() const noexcept = 0;
  /// Whether the server wants the request in HTTP/1.1.
  [[nodiscard]] virtual bool requires_http1() const noexcept = 0;

  /// Called when the request was sent and the response was received, and the connection may be
  /// used again. `idle_limit`: the time for which the server keeps it idle.
  virtual void give_back(std::optional<std::chrono::seconds> idle_limit) noexcept = 0;

 protected:
  ~client_stream() = default;

 private:
  /// Destroys the stream. An exchange that has not ended is cancelled.
  virtual void release() noexcept = 0;
};

using client_stream_pointer = std::unique_ptr<client_stream, client_stream::deleter>;

}  // namespace gyre::http::detail
