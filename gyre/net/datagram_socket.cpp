// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/datagram_socket.hpp>

#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>

#include <memory>

namespace gyre::net {

namespace {

socket bound_to(const endpoint& local) {
  socket result = socket::open(address_family::local, socket_type::datagram);
  if (!local.path().empty() || local.is_abstract()) result.bind(local);
  return result;
}

void connect_socket(int fd, const sockaddr* peer, socklen_t size) {
  const io::result outcome = detail::system::connect(fd, peer, size);
  if (!outcome) detail::fail(outcome.error(), "connect");
}

}  // namespace

datagram_socket::datagram_socket(event_loop& loop, socket native_socket)
    : descriptor_(std::make_unique<io::detail::open_descriptor>(loop, native_socket.release(),
                                                                io::handle_kind::socket)) {}

socket_ref datagram_socket::options() const {
  return socket_ref(io::detail::opened(descriptor_, "gyre::net::datagram_socket").fd());
}

event_loop& datagram_socket::loop() const {
  return io::detail::opened(descriptor_, "gyre::net::datagram_socket").loop();
}

void datagram_socket::connect(const endpoint& peer) {
  const int fd = io::detail::opened(descriptor_, "gyre::net::datagram_socket").handle().fd();
  connect_socket(fd, peer.data(), peer.size());
}

void datagram_socket::disconnect() {
  const int fd = io::detail::opened(descriptor_, "gyre::net::datagram_socket").handle().fd();
  sockaddr no_address{};
  no_address.sa_family = AF_UNSPEC;
  connect_socket(fd, &no_address, sizeof no_address);
}

unix_datagram::unix_datagram(event_loop& loop, const endpoint& local)
    : datagram_socket(loop, bound_to(local)) {}

std::pair<unix_datagram, unix_datagram> datagram_pair(event_loop& loop) {
  auto [first, other] = socket_pair(socket_type::datagram);
  return {unix_datagram(loop, std::move(first)), unix_datagram(loop, std::move(other))};
}

}  // namespace gyre::net
