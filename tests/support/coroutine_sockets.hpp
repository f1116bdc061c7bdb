// SPDX-License-Identifier: Apache-2.0
// What tests of coroutines' sockets have in common.
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

/// Not every machine has IPv6.
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

/// How `work` failed; no error if it did not.
inline std::error_code error_of(event_loop& loop, task<> work, inplace_stop_token stop = {}) {
  try {
    sync_wait(loop, std::move(work), stop);
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  }
}

}  // namespace gyre::test
