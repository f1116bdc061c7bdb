// SPDX-License-Identifier: Apache-2.0
// http2_client_stream: one request of a client's HTTP/2 connection, and its response.
//
// | state | event | next |
// |---|---|---|
// | reserved | send_head() | open |
// | reserved | the connection ends | closed |
// | open | head, bytes, trailers | open: they wait until the exchange takes them |
// | open | the session closes the stream, or the connection ends | closed |
// | open | the exchange releases the stream | abandoned, after RST_STREAM unless all was exchanged |
// | abandoned | the session closes the stream, or the connection ends | destroyed |
// | reserved, closed | the exchange releases the stream | destroyed |
//
// A stream counts against the limits of the connection until it is closed. After an extended
// CONNECT the two bodies are the bytes of a WebSocket; when such a stream is released, and the
// server has ended its side, END_STREAM replaces RST_STREAM.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/base/intrusive_list.hpp>
#include <gyre/http/detail/client_stream.hpp>
#include <gyre/http/detail/header_block.hpp>
#include <gyre/http/detail/http2_session.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/sync/event.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::http::detail {

class http2_client_connection;

/// Thread-safety: the loop's thread.
/// Lifetime: keeps the connection until the exchange releases the stream.
class http2_client_stream final : public gyre::detail::slab_object,
                                  public intrusive_list_node,
                                  public client_stream,
                                  public http2_body_source {
 public:
  explicit http2_client_stream(std::shared_ptr<http2_client_connection> connection);
  http2_client_stream(const http2_client_stream&) = delete;
  http2_client_stream& operator=(const http2_client_stream&) = delete;
  ~http2_client_stream() = default;

  // The connection calls the functions from here to is_websocket().
  /// Whether the exchange has released the stream.
  bool is_abandoned() const noexcept { return is_abandoned_; }
  void note_sent() noexcept { is_sent_ = true; }
  void receive_interim(const header_block& head);
  void receive_head(header_block head, bool is_end);
  void receive(std::span<const std::byte> bytes);
  void receive_end(header_block trailers);
  /// Resets the stream because of its response. The exchange gets `error` in place of a head.
  void refuse(errc error);
  /// Called when the session has closed the stream, which may destroy it.
  void close(const http2_event& event) noexcept;
  /// Called at the end of the connection, which may destroy the stream. `error` is null if the
  /// server has ended the connection in the regular way.
  void lose(const std::exception_ptr& error) noexcept;
  /// Wakes the coroutine that sends, if the session has taken bytes.
  void wake_sender() noexcept;
  /// Wakes the coroutine that waits for the server's SETTINGS.
  void note_settings() noexcept { receive_event_.set(); }
  /// Whether the stream carries a WebSocket, after an extended CONNECT.
  bool is_websocket() const noexcept { return is_websocket_; }

  bool is_reused() const noexcept override { return is_reused_; }
  task<bool> allows_websocket(const request_clock& clock, steady_time expiry) override;
  task<> send_head(message content, const request_clock& clock,
                   std::chrono::nanoseconds limit) override;
  task<> send_body(message_writer& framing, std::span<const std::byte> bytes,
                   const request_clock& clock, std::chrono::nanoseconds limit) override;
  task<> end_body(const message_writer& framing, const http::fields& trailers,
                  const request_clock& clock, std::chrono::nanoseconds limit) override;
  bool has_send_failed() const noexcept override { return has_send_failed_; }
  bool has_input() noexcept override;
  task<bool> receive(const request_clock& clock, steady_time expiry, const char* phase) override;
  std::expected<bool, errc> take_head(incoming_response& response) override;
  std::expected<std::span<const std::byte>, errc> take_piece(incoming_response& response) override;
  bool is_unprocessed() const noexcept override;
  bool requires_http1() const noexcept override;
  void give_back(std::optional<std::chrono::seconds> /*idle_limit*/) noexcept override {}

 private:
  // The functions of http2_body_source.
  offer offer_bytes(std::size_t max_size) noexcept override;
  bool take_bytes(io::buffer& output, std::size_t size) override;
  const header_block* trailers() const noexcept override { return request_trailers_.get(); }

  void release() noexcept override;
  void mark_closed() noexcept;
  [[noreturn]] void fail_closed(const request_clock& clock, const char* phase) const;

  http2_client_connection& connection_;
  std::shared_ptr<http2_client_connection> keeper_;  // owns connection_ until release()
  std::int32_t id_ = 0;
  const bool is_reused_;
  bool is_closed_ = false;
  bool is_abandoned_ = false;
  bool is_sent_ = false;  // whether the head of the request has become a frame
  bool is_websocket_ = false;

  // The members from here to has_send_failed_ belong to the request.
  std::string short_body_;
  std::string_view rest_;  // unsent bytes in short_body_, or in memory of the program
  std::unique_ptr<header_block> request_trailers_;
  manual_reset_event send_event_;  // set when the session has taken bytes, or at the end
  bool has_more_output_ = true;    // whether the program has more of the body
  bool has_send_failed_ = false;
  bool is_too_long_ = false;  // whether the head of the request cannot be sent

  // The members from here to is_end_taken_ belong to the response.
  manual_reset_event receive_event_;
  std::vector<std::uint16_t> interim_;  // the statuses of interim responses that nobody has taken
  std::size_t interim_count_ = 0;
  header_block head_;
  io::buffer arrived_bytes_{{.prepend = 0}};  // bytes that the exchange has not taken
  io::buffer taken_bytes_{{.prepend = 0}};    // bytes that the exchange reads
  header_block response_trailers_;
  errc head_error_{};
  bool has_head_ = false;
  bool is_head_last_ = false;  // whether no body follows the head
  bool has_end_ = false;       // whether the end of the response was received
  bool is_end_taken_ = false;

  // The members from here on tell how the stream has ended, if is_closed_.
  http2_error reset_error_ = http2_error::none;
  bool is_own_reset_ = false;
  bool is_lost_ = false;  // whether the connection has ended
  std::exception_ptr lost_error_;
};

}  // namespace gyre::http::detail
