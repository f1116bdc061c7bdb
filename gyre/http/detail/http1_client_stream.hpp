// SPDX-License-Identifier: Apache-2.0
// http1_client_stream: a connection of a client's pool, for one exchange of HTTP/1.1.
#pragma once

#include <gyre/base/detail/slab_object.hpp>
#include <gyre/http/detail/client_connection.hpp>
#include <gyre/http/detail/client_stream.hpp>

#include <chrono>
#include <cstddef>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace gyre::http::detail {

/// Thread-safety: the loop's thread.
/// Lifetime: closes the connection at its end, unless give_back() was called.
class http1_client_stream final : public gyre::detail::slab_object, public client_stream {
 public:
  explicit http1_client_stream(client_lease connection) noexcept
      : connection_(std::move(connection)) {}

  bool is_reused() const noexcept override { return connection_.is_reused(); }
  task<bool> allows_websocket(const request_clock& clock, steady_time expiry) override;
  task<> send_head(message content, const request_clock& clock,
                   std::chrono::nanoseconds limit) override;
  task<> send_body(message_writer& framing, std::span<const std::byte> bytes,
                   const request_clock& clock, std::chrono::nanoseconds limit) override;
  task<> end_body(const message_writer& framing, const http::fields& trailers,
                  const request_clock& clock, std::chrono::nanoseconds limit) override;
  bool has_send_failed() const noexcept override { return has_send_failed_; }

  bool has_input() noexcept override { return !connection_->input.empty(); }
  task<bool> receive(const request_clock& clock, steady_time expiry, const char* phase) override;
  std::expected<bool, errc> take_head(incoming_response& response) override {
    return response.take_head(connection_->input);
  }
  std::expected<std::span<const std::byte>, errc> take_piece(incoming_response& response) override {
    return response.take_piece(connection_->input);
  }

  bool is_unprocessed() const noexcept override { return false; }
  bool requires_http1() const noexcept override { return false; }
  void give_back(std::optional<std::chrono::seconds> idle_limit) noexcept override;

 private:
  void release() noexcept override { delete this; }
  task<> send(std::span<const std::byte> bytes, const request_clock& clock,
              std::chrono::nanoseconds limit);

  client_lease connection_;
  std::string chunk_;
  bool has_send_failed_ = false;
};

}  // namespace gyre::http::detail
