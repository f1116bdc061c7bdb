// SPDX-License-Identifier: Apache-2.0
// srv_record: a DNS record that names a server of a service.
//
//     for (const auto& each : co_await names.resolve_srv("_xmpp-client._tcp.example.org")) {
//       auto peer = co_await gyre::as_expected(gyre::net::connect(names, each.target, each.port));
//       if (!peer) continue;  // the next server
//       use(std::move(*peer));
//       break;
//     }
#pragma once

#include <cstdint>
#include <string>

namespace gyre::net {

/// A server of a service (RFC 2782). resolver::resolve_srv() gives them in the order in which to
/// try them; TXT and PTR records are plain strings (resolve_txt(), resolve_ptr()).
struct srv_record {
  std::string target;  ///< the name of its host
  std::uint16_t port = 0;
  std::uint16_t priority = 0;  ///< the smaller, the sooner
  std::uint16_t weight = 0;    ///< its share of the load among those of one priority
};

}  // namespace gyre::net
