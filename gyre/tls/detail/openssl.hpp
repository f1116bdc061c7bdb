// SPDX-License-Identifier: Apache-2.0
// Smart pointers that own OpenSSL's objects.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>

namespace gyre::tls::detail {

template <auto Free>
struct freer {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};

using bio_ptr = std::unique_ptr<BIO, freer<&BIO_free>>;
using key_ptr = std::unique_ptr<EVP_PKEY, freer<&EVP_PKEY_free>>;
using ssl_ptr = std::unique_ptr<SSL, freer<&SSL_free>>;
using ssl_session_ptr = std::unique_ptr<SSL_SESSION, freer<&SSL_SESSION_free>>;
using ssl_ctx_ptr = std::unique_ptr<SSL_CTX, freer<&SSL_CTX_free>>;
using x509_ptr = std::unique_ptr<X509, freer<&X509_free>>;
using x509_crl_ptr = std::unique_ptr<X509_CRL, freer<&X509_CRL_free>>;

}  // namespace gyre::tls::detail
