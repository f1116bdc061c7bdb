// SPDX-License-Identifier: Apache-2.0
// forwarding_options: the proxies before a server that name its clients.
//
//     gyre::http::server_options options{
//         .forwarding = {.trusted = {"10.0.0.0/8", "2001:db8::/32"}}};
//     gyre::http::server server(loop, at, options);
//     server.get("/", [](gyre::http::request& request) {
//       return gyre::http::response::text(request.client_address()->to_string());
//     });
#pragma once

#include <gyre/net/ip_network.hpp>

#include <cstdint>
#include <vector>

namespace gyre::http {

/// The fields in which proxies name clients.
enum class forwarding_fields : std::uint8_t {
  /// X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host, which most proxies send. The last
  /// value of the latter two counts, which is that of the nearest proxy.
  x_forwarded,
  /// Forwarded (RFC 7239).
  forwarded,
};

/// Says from which proxies request::client_address(), client_scheme() and client_host() take what
/// they return. By default from none: these functions then describe the connection.
///
/// Each proxy adds the address of its own client at the end of the list in the field, and a client
/// may send a list with any content. So the list is read from its end: the last address that is not
/// itself a trusted proxy is the client's. An element that names no address ("unknown", "_hidden"),
/// and a line that breaks the grammar, end the search; the client's address is then that of the
/// proxy which sent it.
///
/// A proxy must replace or extend the fields that you choose here. It may pass other fields on
/// unchanged, which anyone can set, so only one kind of fields is read.
struct forwarding_options {
  std::vector<net::ip_network> trusted = {};  ///< the addresses of the proxies
  /// Whether a peer on a Unix socket is a trusted proxy.
  bool trusts_unix_peers = false;
  forwarding_fields fields = forwarding_fields::x_forwarded;
};

}  // namespace gyre::http
