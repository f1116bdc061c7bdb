// SPDX-License-Identifier: Apache-2.0
// connect: TCP connections for coroutines, to an endpoint or by Happy Eyeballs to a host.
//
//     auto typed = co_await gyre::net::connect(text);  // such as "localhost:7000"
//
//     auto direct = co_await gyre::net::connect(server);  // an endpoint
//
//     auto named = co_await gyre::net::connect(resolver, "example.org", "https");
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/net/connect_options.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/host_port.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::net {

class resolver;

/// Connects by TCP to the IP endpoint `server` (see connect_unix() for Unix sockets). The stream is
/// served by `loop`, or by the loop that the coroutine runs on.
///
/// Thread-safety: to be awaited on the loop's thread; a stop may be requested from any thread.
/// Errors: gyre::operation_cancelled when a stop is requested, else std::system_error; no socket is
/// left open:
/// - std::errc::connection_refused; io::errc::connected_to_itself, which equals it, if the kernel
///   connected the socket to itself, as it can where nothing listens at a local port;
/// - network_unreachable, host_unreachable, too_many_files_open;
/// - timed_out at the kernel's limit of about two minutes (with_timeout() sets a shorter limit);
/// - operation_not_permitted if the coroutine runs on no loop, or on a loop other than `loop`.
///
/// Complexity: allocates one coroutine frame (two without `loop`) and a block for the stream.
[[nodiscard]] task<tcp_stream> connect(endpoint server, connect_options options = {});
[[nodiscard]] task<tcp_stream> connect(event_loop& loop, endpoint server,
                                       connect_options options = {});

/// Connects to the first of `candidates` that answers ("Happy Eyeballs", RFC 8305, Schinazi and
/// Pauly, 2017). The candidates are tried in their order, but IPv6 and IPv4 alternate. The losing
/// attempts are cancelled, and awaited, before connect() returns. Otherwise this overload does what
/// connect() to one endpoint does.
///
/// Errors: the error of the last attempt, if all failed; std::errc::invalid_argument if there are
/// no candidates; std::invalid_argument for a negative delay.
/// Complexity: each attempt allocates a block and its coroutine frames, besides the stream's block.
[[nodiscard]] task<tcp_stream> connect(event_loop& loop, std::vector<endpoint> candidates,
                                       race_options options = {});
/// Connects like the overload for several candidates, to the addresses of `host`, at a port or the
/// name of a service, on the loop that the coroutine runs on. Needs resolver.hpp; `names` may be on
/// another loop, and must outlive the wait. Attempts begin with the addresses of one IP version if
/// the name server's answer about the other version is late (see `resolution_delay`). Errors also:
/// those of resolver::resolve().
[[nodiscard]] task<tcp_stream> connect(resolver& names, std::string host, service port,
                                       race_options options = {});
/// Connects to a host_port, such as "example.org:https", whose name `names` resolves.
[[nodiscard]] task<tcp_stream> connect(resolver& names, host_port server,
                                       race_options options = {});
/// Connects to a host_port. Each call makes a resolver of its own if `server` is a name other than
/// "localhost". That resolver reads resolv.conf and the hosts file, which blocks, and remembers no
/// answers: to connect often, keep a resolver. Errors also: std::errc::invalid_argument for a Unix
/// socket.
[[nodiscard]] task<tcp_stream> connect(host_port server, race_options options = {});

namespace detail {
task<tcp_stream> connect_text(std::string server, race_options options);
task<tcp_stream> connect_text(resolver& names, std::string server, race_options options);
}  // namespace detail

/// Connects to the host_port that `server` names. Errors also: those of the constructor of
/// host_port, when awaited.
template <std::convertible_to<std::string_view> Text>
[[nodiscard]] task<tcp_stream> connect(const Text& server, race_options options = {}) {
  return detail::connect_text(std::string(std::string_view(server)), std::move(options));
}
template <std::convertible_to<std::string_view> Text>
[[nodiscard]] task<tcp_stream> connect(resolver& names, const Text& server,
                                       race_options options = {}) {
  return detail::connect_text(names, std::string(std::string_view(server)), std::move(options));
}

}  // namespace gyre::net
