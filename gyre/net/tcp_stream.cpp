// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_stream.hpp>

#include <memory>

namespace gyre::net {

socket_stream::socket_stream(event_loop& loop, socket connected, io::handle_kind kind)
    : stream(std::make_unique<io::detail::open_descriptor>(loop, connected.release(), kind)) {}

socket_ref socket_stream::options() const {
  return socket_ref(io::detail::opened(descriptor(), "gyre::net::socket_stream").fd());
}

void socket_stream::shutdown(shutdown_side side) { detail::shut_down(options().fd(), side); }

void socket_stream::reset() noexcept {
  if (is_open()) detail::reset_when_closed(fd());
  close();
}

}  // namespace gyre::net
