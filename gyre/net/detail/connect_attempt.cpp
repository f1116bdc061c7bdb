// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/connect_attempt.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/errors.hpp>

#include <string>
#include <system_error>

namespace gyre::net::detail {

socket open_to_connect(const endpoint& to, const endpoint& local, const socket_options& options) {
  socket opened = socket::open(to.family(), socket_type::stream);
  opened.apply(options);
  if (local.family() != address_family::none) {
    if (!options.reuse_address) opened.set_reuse_address(true);
    // Connecting then chooses a port that is free for this peer, not for all of them.
    if (local.is_ip() && local.port() == 0) opened.set_bind_address_no_port(true);
    opened.bind(local);
  }
  return opened;
}

std::error_code check_connected(socket_ref connected) noexcept try {
  const endpoint local = connected.local_endpoint();
  if (!local.is_ip() || local != connected.peer_endpoint()) return {};
  return io::errc::connected_to_itself;
} catch (const std::system_error& error) {
  return error.code();
}

void throw_not_connected(std::error_code error, const endpoint& to) {
  throw std::system_error(error, "connect " + to.to_string());
}

}  // namespace gyre::net::detail
