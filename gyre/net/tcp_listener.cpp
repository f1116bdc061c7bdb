// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/tcp_listener.hpp>

namespace gyre::net {
namespace {

socket open_listener(const endpoint& local, const listener_options& options) {
  socket result = socket::open(local.family(), socket_type::stream);
  result.set_reuse_address(options.reuse_address);
  if (options.reuse_port) result.set_reuse_port(true);
  if (local.family() == address_family::ipv6) result.set_v6_only(options.v6_only);
  result.apply(options.accepted);
  result.bind(local);
  result.listen(options.backlog);
  return result;
}

}  // namespace

tcp_listener::tcp_listener(event_loop& loop, const endpoint& local, const listener_options& options)
    : listener(loop, open_listener(local, options)) {}

}  // namespace gyre::net
