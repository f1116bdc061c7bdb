// SPDX-License-Identifier: Apache-2.0
// broadcast_target: the socket of a subscriber of a websocket_broadcast.
#pragma once

#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_error.hpp>
#include <gyre/task/task.hpp>

#include <span>
#include <string_view>

namespace gyre::http::detail {

/// Thread-safety: the loop's thread.
class broadcast_target {
 public:
  broadcast_target() = default;
  broadcast_target(const broadcast_target&) = delete;
  broadcast_target& operator=(const broadcast_target&) = delete;
  virtual ~broadcast_target() = default;

  virtual bool is_open() const noexcept = 0;
  /// Sends the messages, which must outlive the await. Returns when more may be sent.
  [[nodiscard]] virtual task<> send_all(std::span<const prepared_message> messages) = 0;
  [[nodiscard]] virtual task<> close(close_code code, std::string_view reason) = 0;
};

}  // namespace gyre::http::detail
