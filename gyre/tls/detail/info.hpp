// SPDX-License-Identifier: Apache-2.0
// info_of: the properties of a connection after OpenSSL's handshake.
#pragma once

#include <gyre/tls/connection_info.hpp>
#include <gyre/tls/detail/openssl.hpp>

namespace gyre::tls::detail {

/// Returns the properties of the connection after the handshake. Throws std::bad_alloc.
connection_info info_of(SSL* ssl);

}  // namespace gyre::tls::detail
