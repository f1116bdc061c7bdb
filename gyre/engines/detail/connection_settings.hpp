// SPDX-License-Identifier: Apache-2.0
// The settings that the connections of all engines' clients have in common.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/net/connection_options.hpp>

#include <cstddef>
#include <limits>

namespace gyre::engines::detail {

/// Leaves the limits of bytes and times to the protocol, which knows its requests and replies.
inline void apply_client_settings(net::connection_options& connections) noexcept {
  constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max() / 2;
  connections.output_limit = unlimited;
  connections.input_limit = unlimited;
  connections.message_timeout = duration::zero();
  // A larger receive could take all that a Unix socket holds: the server would then still write
  // while the client has nothing to do (docs/design/engines.md).
  connections.receive_size = std::size_t{32} << 10;
}

}  // namespace gyre::engines::detail
