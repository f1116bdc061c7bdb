// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/datagram_socket.hpp>

#include <gyre/base/error.hpp>

#include <memory>

namespace gyre::net {

namespace {

socket bound_to(const endpoint& local) {
  socket opened = socket::open(address_family::local, socket_type::datagram);
  if (!local.path().empty() || local.is_abstract()) opened.bind(local);
  return opened;
}

}  // namespace

datagram_socket::datagram_socket(event_loop& loop, socket served)
    : on_(std::make_unique<io::detail::open_descriptor>(loop, served.release(),
                                                        io::handle_kind::socket)) {}

socket_ref datagram_socket::options() const {
  return socket_ref(io::detail::opened(on_, "gyre::net::datagram_socket").fd());
}

event_loop& datagram_socket::loop() const {
  return io::detail::opened(on_, "gyre::net::datagram_socket").loop();
}

void datagram_socket::connect(const endpoint& peer) {
  const int served = io::detail::opened(on_, "gyre::net::datagram_socket").handle().fd();
  if (::connect(served, peer.data(), peer.size()) != 0) gyre::detail::throw_errno("connect");
}

void datagram_socket::disconnect() {
  const int served = io::detail::opened(on_, "gyre::net::datagram_socket").handle().fd();
  sockaddr none{};
  none.sa_family = AF_UNSPEC;
  if (::connect(served, &none, sizeof none) != 0) gyre::detail::throw_errno("connect");
}

unix_datagram::unix_datagram(event_loop& loop, const endpoint& local)
    : datagram_socket(loop, bound_to(local)) {}

std::pair<unix_datagram, unix_datagram> datagram_pair(event_loop& loop) {
  auto [one, other] = socket_pair(socket_type::datagram);
  return {unix_datagram(loop, std::move(one)), unix_datagram(loop, std::move(other))};
}

}  // namespace gyre::net
