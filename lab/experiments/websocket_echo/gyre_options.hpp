// SPDX-License-Identifier: Apache-2.0
// The options of gyre's servers of WebSockets, which are the defaults but for two.
#pragma once

#include <gyre/http/server_options.hpp>
#include <gyre/http/websocket_options.hpp>
#include <gyre/net/tcp_server_options.hpp>

namespace lab::websocket {

inline gyre::http::websocket_options packing_options() {
  gyre::http::websocket_options options;
  options.compression = {.enabled = true,
                         .window_bits = 15,
                         .keeps_context = false,
                         .keeps_peer_context = false,
                         .min_size = 0};
  return options;
}

// The clients of the lab have few addresses.
inline gyre::http::server_options server_options() {
  gyre::http::server_options options;
  options.tcp.connections_per_address = gyre::net::tcp_server_options::unlimited;
  return options;
}

}  // namespace lab::websocket
