// SPDX-License-Identifier: Apache-2.0
// server_end_point: bytes that identify the server of a TLS connection, to which a protocol's login
// is bound ("tls-server-end-point", RFC 5929).
//
//     const auto channel = gyre::tls::server_end_point(*secure.layer());
#pragma once

#include <gyre/net/layer.hpp>

#include <cstddef>
#include <vector>

namespace gyre::tls {

/// The hash of the server's certificate, for a client whose handshake is done: a login that proves
/// it, such as SCRAM-SHA-256-PLUS, is of no use to a server with another certificate. Empty if the
/// layer is not a client's of TLS, and for a certificate whose signature names no hash (Ed25519),
/// to which RFC 5929 gives no such bytes.
///
/// Thread-safety: the connection's loop.
/// Errors: std::bad_alloc.
/// Complexity: hashes the certificate.
[[nodiscard]] std::vector<std::byte> server_end_point(const net::layer& secure);

}  // namespace gyre::tls
