// SPDX-License-Identifier: Apache-2.0
// connect_operation, open_to_connect, check_connected: the steps of an attempt to connect.
#pragma once

#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/socket_options.hpp>

#include <sys/socket.h>

#include <system_error>

namespace gyre::net::detail {

/// connect(2) as an Operation.
struct connect_operation : io::detail::single_request<io::connect_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::net: connect";

  connect_operation(io::detail::open_descriptor* on, const sockaddr* to, socklen_t size) noexcept
      : single_request(on, to, size, nullptr) {}

  static void value(io::result) noexcept {}
};

/// A stream socket for a connection to `to`, bound to `local` if that is an address, also while
/// connections from there linger, unless `options` say otherwise. Throws std::system_error.
socket open_to_connect(const endpoint& to, const endpoint& local = {},
                       const socket_options& options = {});

/// Whether a socket that has connected is of use. io::errc::connected_to_itself: it is a TCP socket
/// and its own peer, as the kernel can choose a local port that is just being connected to (RFC
/// 793's simultaneous open, with itself). Another error: it is connected no more.
std::error_code check_connected(socket_ref connected) noexcept;

/// Throws std::system_error for an attempt that has failed.
[[noreturn, gnu::cold]] void throw_not_connected(std::error_code error, const endpoint& to);

}  // namespace gyre::net::detail
