// SPDX-License-Identifier: Apache-2.0
// connect: makes TCP connections, for coroutines.
//
//     auto direct = co_await gyre::net::connect(server);  // an endpoint
//
//     auto named = co_await gyre::net::connect(resolver, "example.org", "https");
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace gyre::net {

class resolver;
class service;

/// Options of connect().
struct connect_options {
  /// Set before connecting.
  socket_options socket = {.no_delay = true};
  /// Where to connect from (SO_REUSEADDR is set then, unless `socket` says otherwise); else the
  /// kernel chooses.
  std::optional<endpoint> local = {};
};

// GCC 12 destroys the members of an aggregate twice that is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<connect_options>);

/// A connection to `to`, on the loop that the coroutine runs on, or on `loop`, on whose thread the
/// coroutine must be.
///
/// Errors: operation_cancelled when the coroutine is asked to stop (from any thread);
/// connection_refused, also when a port of this machine has been connected to itself;
/// network_unreachable, host_unreachable, timed_out (the kernel's, after two minutes: use
/// with_timeout()); too_many_files_open; operation_not_permitted where there is no loop. Then
/// nothing is left open. Costs a frame.
[[nodiscard]] task<tcp_stream> connect(endpoint to, connect_options options = {});
[[nodiscard]] task<tcp_stream> connect(event_loop& loop, endpoint to, connect_options options = {});

/// Options of connect() for several addresses.
struct race_options {
  /// After how long without an answer the next address is tried beside it, while the others go on;
  /// at once when an attempt fails.
  std::chrono::nanoseconds attempt_delay = std::chrono::milliseconds{250};
  /// When a host's addresses of the version that is not preferred are known first (IPv4's, unless
  /// the resolver says ipv4_first): how long to wait for the others.
  std::chrono::nanoseconds resolution_delay = std::chrono::milliseconds{50};
  connect_options each = {};
};
static_assert(std::is_trivially_destructible_v<race_options>);

/// A connection to one of `candidates`, whichever answers first ("happy eyeballs", RFC 8305,
/// Schinazi and Pauly, 2017): they are tried in order, but IPv6 and IPv4 in turns. The others are
/// given up, and awaited, before this ends. Errors: the one of the last attempt that failed, if all
/// did; std::errc::invalid_argument if there is none; and those of connect().
[[nodiscard]] task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates,
                                       race_options options = {});
/// As above, for the addresses of `host`, at a port or the name of a service, on the loop that the
/// coroutine runs on. A name server that is silent about IPv6 (or IPv4) holds nothing up: attempts
/// begin with the addresses that are known, and the others join in when they come. Errors also:
/// those of resolver::resolve().
[[nodiscard]] task<tcp_stream> connect(resolver& names, std::string host, service port,
                                       race_options options = {});

}  // namespace gyre::net
