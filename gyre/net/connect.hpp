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
  /// The local address to connect from; none: the kernel chooses. With one, SO_REUSEADDR is set,
  /// unless `socket` says otherwise.
  std::optional<endpoint> local = {};
};

// GCC 12 destroys an aggregate's members twice if it is made within an awaited expression.
static_assert(std::is_trivially_destructible_v<connect_options>);

/// Awaited, gives a connection to `to`, on the loop that the coroutine runs on, or on `loop`, on
/// whose thread the coroutine must be.
///
/// Errors, after any of which nothing is left open:
/// - operation_cancelled when a stop is requested (from any thread);
/// - std::errc::connection_refused, also if the kernel connected the socket to itself, as it can
///   where nothing listens at a local port;
/// - network_unreachable, host_unreachable, too_many_files_open;
/// - timed_out, the kernel's, after two minutes: use with_timeout() for another limit;
/// - operation_not_permitted if the coroutine runs on no loop, or on another one than `loop`.
///
/// Complexity: allocates one coroutine frame (two without `loop`) and a block for the stream.
[[nodiscard]] task<tcp_stream> connect(endpoint to, connect_options options = {});
[[nodiscard]] task<tcp_stream> connect(event_loop& loop, endpoint to, connect_options options = {});

/// Options of connect() for several addresses.
struct race_options {
  /// How long an attempt may go without an answer until the next address is tried beside it; after
  /// an attempt that fails the next one is tried at once. Earlier attempts go on.
  std::chrono::nanoseconds attempt_delay = std::chrono::milliseconds{250};
  /// How long to wait for the addresses of the preferred IP version, when those of the other
  /// version are known first. IPv6 is preferred, unless the resolver's options say ipv4_first.
  std::chrono::nanoseconds resolution_delay = std::chrono::milliseconds{50};
  connect_options each = {};
};
static_assert(std::is_trivially_destructible_v<race_options>);

/// Awaited, gives a connection to the one of `candidates` that answers first ("happy eyeballs", RFC
/// 8305, Schinazi and Pauly, 2017). They are tried in their order, but IPv6 and IPv4 in turns. The
/// other attempts are given up, and awaited, before this ends. Errors: the one of the last attempt
/// that failed, if all did; std::errc::invalid_argument if there are no candidates; and those of
/// connect().
[[nodiscard]] task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates,
                                       race_options options = {});
/// As above, for the addresses of `host`, at a port or the name of a service, on the loop that the
/// coroutine runs on. Needs resolver.hpp. A name server that is silent about IPv6 (or IPv4) holds
/// nothing up: attempts begin with the addresses that are known, and the others join in when they
/// come. Errors also: those of resolver::resolve().
[[nodiscard]] task<tcp_stream> connect(resolver& names, std::string host, service port,
                                       race_options options = {});

}  // namespace gyre::net
