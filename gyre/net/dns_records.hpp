// SPDX-License-Identifier: Apache-2.0
// srv_record: DNS records other than addresses.
//
//     for (const auto& each : co_await names.resolve_srv("_xmpp-client._tcp.example.org")) {
//       auto peer = co_await gyre::net::connect(names, each.target, each.port);
//       use(std::move(peer));
//     }
#pragma once

#include <cstdint>
#include <string>

namespace gyre::net {

/// A server of a service (RFC 2782).
struct srv_record {
  std::string target;  ///< the name of its host
  std::uint16_t port = 0;
  std::uint16_t priority = 0;  ///< the smaller, the sooner
  std::uint16_t weight = 0;    ///< its share of the load among those of one priority
};

}  // namespace gyre::net
