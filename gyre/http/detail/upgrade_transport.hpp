// SPDX-License-Identifier: Apache-2.0
// upgrade_transport: carries a WebSocket of a server over an upgraded connection of HTTP/1.1, or
// over a stream of HTTP/2.
#pragma once

#include <gyre/http/detail/websocket_transport.hpp>
#include <gyre/http/response.hpp>
#include <gyre/task/task.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace gyre::http::detail {

class exchange;

/// Lifetime: the connection must outlive it.
class upgrade_transport final : public websocket_transport {
 public:
  explicit upgrade_transport(upgraded_connection& connection) noexcept;
  ~upgrade_transport() override { upgrade_transport::end_wait(); }

  std::span<const std::byte> input() const noexcept override;
  void consume(std::size_t count) noexcept override;
  bool has_ended() const override;
  std::optional<task<>> begin_wait(input_receiver& receiver) override;
  void end_wait() noexcept override;
  void interrupt() noexcept override {}
  std::optional<task<>> send(std::span<const std::byte> bytes) override;

 private:
  exchange& owner_;
};

}  // namespace gyre::http::detail
