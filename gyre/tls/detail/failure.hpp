// SPDX-License-Identifier: Apache-2.0
// failure: OpenSSL's errors as errc, with a text.
#pragma once

#include <gyre/net/layer.hpp>
#include <gyre/tls/detail/openssl.hpp>

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace gyre::tls::detail {

using failure = net::layer::failure;

/// Returns the first error of OpenSSL's queue, and clears the queue. `is_established`: whether the
/// handshake was done. `host`: the name or address that the peer's certificate must have, if any.
/// `names`: the names and addresses that the certificate has.
failure take_failure(SSL* ssl, bool is_established, std::string_view host,
                     const std::vector<std::string>& names);

/// Throws std::system_error for `code` with `text` and OpenSSL's reason, if it has one.
[[noreturn]] void throw_openssl_error(std::error_code code, std::string text);

/// Returns the DNS names and addresses in a certificate, the names in lower case.
std::vector<std::string> hosts_of(X509* certificate);
/// Returns the DNS names in a certificate, or its common name if the certificate has no DNS names.
std::vector<std::string> names_of(X509* certificate);

/// Whether the certificate of the session's peer, if it has one, has expired.
bool has_expired_certificate(const SSL_SESSION* session) noexcept;

}  // namespace gyre::tls::detail
