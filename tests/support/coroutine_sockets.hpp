// SPDX-License-Identifier: Apache-2.0
// Helpers of tests of coroutines' sockets.
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/socket.hpp>
#include <gyre/task/stop_token.hpp>
#include <gyre/task/task.hpp>

#include <system_error>
#include <utility>
#include <vector>

namespace gyre::test {

/// The loopback addresses of this machine, which may lack IPv6.
inline std::vector<net::ip_address> loopback_addresses() {
  std::vector<net::ip_address> found{net::ip_address::loopback_v4()};
  try {
    const auto probe = net::socket::open(net::address_family::ipv6, net::socket_type::datagram);
    probe.bind({net::ip_address::loopback_v6(), 0});
    found.push_back(net::ip_address::loopback_v6());
  } catch (const std::system_error&) {
  }
  return found;
}

/// The error with which `work` fails; no error if it succeeds.
inline std::error_code error_of(event_loop& loop, task<> work, inplace_stop_token stop = {}) {
  try {
    sync_wait(loop, std::move(work), stop);
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  }
}

}  // namespace gyre::test
