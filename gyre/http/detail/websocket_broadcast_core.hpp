// SPDX-License-Identifier: Apache-2.0
// websocket_broadcast_core: the state that a websocket_broadcast shares with its subscribers.
#pragma once

#include <gyre/base/atomic.hpp>
#include <gyre/http/prepared_message.hpp>
#include <gyre/http/websocket_broadcast.hpp>
#include <gyre/sync/broadcast.hpp>

#include <cstdint>

namespace gyre::http::detail {

/// Thread-safety: any thread.
class websocket_broadcast_core {
 public:
  explicit websocket_broadcast_core(const websocket_broadcast_options& settings)
      : options(settings), messages(settings.capacity) {}

  const websocket_broadcast_options options;
  broadcast<prepared_message> messages;
  gyre::detail::atomic<std::uint64_t> subscribers{0}, sent{0}, deliveries{0}, lost{0},
      disconnected{0};
};

}  // namespace gyre::http::detail
