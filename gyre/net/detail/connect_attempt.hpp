// SPDX-License-Identifier: Apache-2.0
// connect_to: an attempt to connect to one address, and its steps.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/net/connect_options.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/net/tcp_stream.hpp>
#include <gyre/task/task.hpp>

#include <sys/socket.h>

#include <system_error>

namespace gyre::net::detail {

/// The Operation of request_awaiter that calls connect(2).
struct connect_operation : io::detail::single_request<io::connect_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::net: connect";

  connect_operation(io::detail::open_descriptor* descriptor, const sockaddr* server,
                    socklen_t size) noexcept
      : single_request(descriptor, server, size, nullptr) {}

  static void value(io::result) noexcept {}
};

/// Opens a stream socket for a connection to `server`, and binds it to `local` if that is an
/// address. Binding succeeds even while earlier connections from `local` linger, unless `options`
/// set reuse_address otherwise. Throws std::system_error.
socket open_to_connect(const endpoint& server, const endpoint& local = {},
                       const socket_options& options = {});

/// Throws std::system_error for a failed attempt to connect to `server`.
[[noreturn, gnu::cold]] void throw_not_connected(std::error_code error, const endpoint& server);

/// Connects like net::connect(), also to a Unix stream socket.
task<tcp_stream> connect_to(event_loop& loop, endpoint server, connect_options options);

}  // namespace gyre::net::detail
