// SPDX-License-Identifier: Apache-2.0
// One attempt to connect: the parts that tcp_client and the coroutines share.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/task/context.hpp>

#include <sys/socket.h>

#include <system_error>

namespace gyre::net::detail {

/// connect(2) as an Operation.
struct connect_operation : io::detail::single_request<io::connect_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::net: connect";

  connect_operation(io::detail::open_descriptor* on, function callback, const sockaddr* to,
                    socklen_t size) noexcept
      : single_request(on, to, size, callback) {}
  connect_operation(const connect_operation& other, function callback) noexcept
      : connect_operation(other.descriptor(), callback, other.peer, other.peer_size) {}

  static void value(io::result) noexcept {}
};

/// A stream socket for a connection to `to` from `local`, if that is an address: then it may be
/// bound while connections from there linger, unless `options` say otherwise. Throws
/// std::system_error.
socket open_to_connect(const endpoint& to, const endpoint& local = {},
                       const socket_options& options = {});

/// Whether a socket that has connected is of use. std::errc::connection_refused: it is a TCP socket
/// and its own peer, as a port of this machine that nobody listens on can be chosen as the local
/// one while it is connected to (RFC 793's simultaneous open, with itself). Another error: it is
/// connected no more.
std::error_code check_connected(socket_ref connected) noexcept;

/// Throws std::system_error for an attempt of a coroutine on `loop` that has failed.
[[noreturn, gnu::cold]] void throw_not_connected(std::error_code error, const event_loop& loop,
                                                 const endpoint& to);

/// The loop that a coroutine of this context runs on. Throws std::system_error
/// (std::errc::operation_not_permitted) if there is none.
event_loop& loop_of(const task_context& context);

}  // namespace gyre::net::detail
