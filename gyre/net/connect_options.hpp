// SPDX-License-Identifier: Apache-2.0
// connect_options, race_options: the settings of connect().
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>

#include <chrono>
#include <optional>
#include <type_traits>

namespace gyre::net {

/// Options of connect().
struct connect_options {
  /// Options that are set on the socket before it connects.
  socket_options socket = {.no_delay = true};
  /// The local address to connect from. Without a value the kernel chooses it. With a value,
  /// SO_REUSEADDR is set, unless `socket` says otherwise. Port 0: the kernel chooses one when it
  /// connects (IP_BIND_ADDRESS_NO_PORT), so that connections to different servers can share a port,
  /// as without a local address.
  std::optional<endpoint> local = {};
};

// Trivial destruction makes `co_await connect(server, {…})` safe: GCC 12 destroys such a temporary
// twice.
static_assert(std::is_trivially_destructible_v<connect_options>);

/// Options of connect() for several addresses.
struct race_options {
  /// The delay between attempts ("Connection Attempt Delay"): the next address is tried, beside the
  /// attempts under way, when this time has passed, or at once when an attempt fails.
  duration attempt_delay = std::chrono::milliseconds{250};
  /// The time for which a lookup waits for the addresses of the preferred IP version when the
  /// addresses of the other version are known first ("Resolution Delay"). IPv6 is preferred, unless
  /// the resolver's options say ipv4_first.
  duration resolution_delay = std::chrono::milliseconds{50};
  /// The options of each attempt.
  connect_options each = {};
};
static_assert(std::is_trivially_destructible_v<race_options>);

}  // namespace gyre::net
