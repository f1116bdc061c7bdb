// SPDX-License-Identifier: Apache-2.0
// connection_info: the outcome of a handshake.
//
//     const bool speaks_http2 = secure.info().application_protocol == "h2";
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gyre::tls {

/// The outcome of a handshake, as texts. A value that the end of the connection does not change.
struct connection_info {
  std::string protocol;                   ///< "TLSv1.3"
  std::string cipher;                     ///< "TLS_AES_256_GCM_SHA384"
  std::string application_protocol = {};  ///< the protocol chosen by ALPN; empty: none
  std::string server_name = {};           ///< requested by the client (SNI); empty: none
  bool resumed = false;               ///< whether the session was resumed without a full handshake
  std::string peer_certificate = {};  ///< in PEM; empty: the peer has sent none
  std::string peer_subject = {};      ///< "CN = client 1"
  std::vector<std::byte> ocsp_staple = {};  ///< the OCSP response of the server
};

}  // namespace gyre::tls
