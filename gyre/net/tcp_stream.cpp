// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_stream.hpp>

#include <sys/socket.h>

#include <memory>

#include <gyre/base/error.hpp>

namespace gyre::net {

socket_stream::socket_stream(event_loop& loop, socket connected, io::handle_kind kind)
    : stream(std::make_unique<io::detail::open_descriptor>(loop, connected.release(), kind)) {}

socket_ref socket_stream::options() const {
  return socket_ref(io::detail::opened(descriptor(), "gyre::net::socket_stream").fd());
}

void socket_stream::shutdown(shutdown_side side) {
  const int fd = options().fd();
  if (::shutdown(fd, static_cast<int>(side)) == 0 || errno == ENOTCONN) return;
  gyre::detail::throw_errno("shutdown");
}

void socket_stream::reset() noexcept {
  const ::linger at_once{.l_onoff = 1, .l_linger = 0};
  if (is_open()) {
    static_cast<void>(::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  }
  close();
}

}  // namespace gyre::net
