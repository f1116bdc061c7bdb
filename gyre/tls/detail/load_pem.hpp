// SPDX-License-Identifier: Apache-2.0
// load_pem: certificates, private keys and revocation lists in PEM, as OpenSSL's objects.
#pragma once

#include <gyre/tls/detail/openssl.hpp>
#include <gyre/tls/tls_context.hpp>

#include <string>
#include <vector>

namespace gyre::tls::detail {

/// A certificate, the rest of its chain, and its private key.
struct key_pair {
  x509_ptr leaf;
  std::vector<x509_ptr> issuers;
  key_ptr key;

  /// The kind of key, such as EVP_PKEY_RSA: a context has one certificate of each kind.
  int kind() const noexcept { return EVP_PKEY_get_base_id(key.get()); }
};

// The functions below throw std::system_error for certificates and keys that cannot be used.

key_pair load_key_pair(const certificate& source);
void use_key_pair(SSL_CTX* context, const key_pair& pair);
/// Adds the certificates to the trusted ones and, if `name_to_clients`, to the list of authorities
/// that a server sends to its clients. Returns false if the text contains none.
bool add_trusted_authorities(SSL_CTX* context, const pem& authorities, bool name_to_clients);
void trust_all(SSL_CTX* context, const std::vector<pem>& authorities);
void use_revocation_lists(SSL_CTX* context, const std::vector<pem>& lists);

}  // namespace gyre::tls::detail
