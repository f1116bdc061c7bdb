// SPDX-License-Identifier: Apache-2.0
// What all kinds of connections begin with.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/io/detail/open_descriptor.hpp>
#include <gyre/io/detail/request_awaiter.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket_options.hpp>
#include <gyre/task/context.hpp>

#include <sys/socket.h>

#include <system_error>

namespace gyre::net::detail {

struct connecting : io::detail::single_request<io::connect_request> {
  using value_type = void;
  static constexpr const char* name = "gyre::net: connect";

  connecting(io::detail::open_descriptor* on, function report, const sockaddr* to,
             socklen_t size) noexcept
      : single_request(on, to, size, report) {}
  connecting(const connecting& other, function report) noexcept
      : connecting(other.descriptor(), report, other.peer, other.peer_size) {}

  static void value(io::result) noexcept {}
};

/// Throws std::system_error for an attempt of a coroutine on `loop` that has failed.
[[noreturn, gnu::cold]] void throw_not_connected(std::error_code why, const event_loop& loop,
                                                 const endpoint& to);

/// Whether a connected TCP socket is its own peer: a port of this machine that nobody listens on can be
/// chosen as the local one while it is connected to (RFC 793's simultaneous open, with itself). Throws
/// std::system_error if it is not connected any more.
bool is_connected_to_itself(socket_ref connected);

/// The loop that a coroutine of this context runs on. Throws std::system_error
/// (std::errc::operation_not_permitted) if there is none.
event_loop& loop_of(const task_context& context);

}  // namespace gyre::net::detail
