// SPDX-License-Identifier: Apache-2.0
// reconnecting_client_options: the settings, states and counters of a reconnecting_client.
#pragma once

#include <gyre/base/duration.hpp>
#include <gyre/base/exponential_backoff.hpp>
#include <gyre/metrics/writable.hpp>
#include <gyre/net/connect_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace gyre::net {

/// Options of a reconnecting_client.
struct reconnecting_client_options {
  /// The maximum number of calls that use the connection at the same time; at least 1. More than 1
  /// is for connections that carry many requests, such as a pipelining client.
  std::size_t concurrency = 1;
  /// The maximum number of waiting calls, those that connect included; at least 1. A further call
  /// fails at once with io::errc::waiting_limit.
  std::size_t max_waiting = 1024;
  /// The maximum number of attempts to connect in a row, after which the calls that wait for them
  /// fail; at least 1.
  std::size_t attempts = 5;
  /// The maximum number of uses of connections by one call_idempotent(), the first included; at
  /// least 1.
  std::size_t uses = 3;
  /// The time limit of an attempt: lookup, all addresses, and the handshake.
  duration connect_timeout = std::chrono::seconds{5};
  /// The delays between attempts, and after connections that break.
  exponential_backoff delay = {};
  /// Whether each delay is a random time of at most the delay that `delay` gives (full jitter).
  bool jitter = true;
  /// The seed of the random delays: equal seeds give equal delays. Without a value, the seed is
  /// random.
  std::optional<std::uint64_t> seed = {};
  /// Options of the connections that the client itself makes.
  race_options connecting = {};
};
static_assert(std::is_trivially_destructible_v<reconnecting_client_options>);

/// States of a reconnecting_client.
enum class client_state : std::uint8_t {
  disconnected,  ///< the next call connects
  waiting,       ///< until the delay before the next attempt has passed
  connecting,    ///< an attempt is under way, or its handshake
  connected,
  closed,
};

/// Counters of a reconnecting_client: of the present, and since the construction of the client.
struct reconnecting_client_metrics {
  static constexpr bool is_read_on_owner = true;  ///< see metrics::registry::add()

  std::size_t waiting = 0;        ///< calls that wait for their turn or for a connection
  std::uint64_t attempts = 0;     ///< to connect
  std::uint64_t failures = 0;     ///< failed attempts
  std::uint64_t connected = 0;    ///< successful attempts
  std::uint64_t broken = 0;       ///< connections that were given up
  std::uint64_t repetitions = 0;  ///< uses by call_idempotent() after a failed one
};
/// Adds the counts to an exposition: see metrics::registry.
void write_metrics(metrics::exposition& output, const reconnecting_client_metrics& counts);

}  // namespace gyre::net
