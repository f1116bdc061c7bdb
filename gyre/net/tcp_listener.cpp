// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_listener.hpp>

namespace gyre::net {
namespace {

socket listening_at(const endpoint& local, const listener_options& options) {
  socket opened = socket::open(local.family(), socket_type::stream);
  opened.set_reuse_address(options.reuse_address);
  if (options.reuse_port) opened.set_reuse_port(true);
  if (local.family() == address_family::ipv6) opened.set_v6_only(options.v6_only);
  opened.apply(options.accepted);
  opened.bind(local);
  opened.listen(options.backlog);
  return opened;
}

}  // namespace

tcp_listener::tcp_listener(event_loop& loop, const endpoint& local, const listener_options& options)
    : listener(loop, listening_at(local, options)) {}

}  // namespace gyre::net
