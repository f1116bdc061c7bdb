// SPDX-License-Identifier: Apache-2.0
// The certificate of the servers in the TLS experiments, and the contexts of OpenSSL that are
// equal for all: the client's, and that of servers which are made of OpenSSL.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace lab::tls {

using context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

/// A certificate for "localhost", signed by its own key on the curve P-256, and the key, in PEM.
struct credentials {
  std::string certificate;
  std::string key;
};

/// Makes credentials, and puts them into the environment for the server's process.
credentials make_credentials();

/// The credentials that the client's process has made.
/// Errors: throws std::runtime_error without them.
credentials inherited_credentials();

/// A context with OpenSSL's defaults from TLS 1.2 on, tickets without a cache of sessions, and
/// buffers that idle connections release.
/// Errors: throws std::runtime_error.
context make_server_context(const credentials& own);

/// A context that trusts this certificate alone.
context make_client_context(const credentials& of_server);

/// The microseconds of this thread for encrypting and decrypting `bytes` by EVP, in records of
/// 16 KiB, with the cipher that both contexts agree on: AES-256-GCM.
double cipher_microseconds(std::size_t bytes);

}  // namespace lab::tls
