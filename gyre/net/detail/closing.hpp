// SPDX-License-Identifier: Apache-2.0
// Closing of connected sockets: resets and half-closes.
#pragma once

#include <gyre/base/error.hpp>
#include <gyre/net/socket.hpp>

#include <sys/socket.h>

#include <cerrno>

namespace gyre::net::detail {

/// A connection that has been lost already is shut down, too. Throws std::system_error.
inline void shut_down(int socket, shutdown_side side) {
  if (::shutdown(socket, static_cast<int>(side)) == 0 || errno == ENOTCONN) return;
  gyre::detail::throw_errno("shutdown");
}

/// Makes closing reset the connection instead of ending it.
inline void reset_when_closed(int socket) noexcept {
  const ::linger at_once{.l_onoff = 1, .l_linger = 0};
  static_cast<void>(::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
}

}  // namespace gyre::net::detail
