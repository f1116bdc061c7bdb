// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/load_pem.hpp>

#include <gyre/tls/detail/failure.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/pemerr.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace gyre::tls::detail {
namespace {

bio_ptr reader_of(const std::string& text) {
  bio_ptr reader(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  if (reader == nullptr) throw std::bad_alloc();
  return reader;
}

// Gives OpenSSL the password. Without a callback OpenSSL would prompt for it at the terminal.
int give_password(char* buffer, int size, int /*for_writing*/, void* password) {
  const auto& text = *static_cast<const std::string*>(password);
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(size));
  std::copy_n(text.begin(), count, buffer);
  return static_cast<int>(count);
}

// Throws unless the text ended after a complete object, where OpenSSL finds no further start line.
void expect_end(const char* part) {
  const unsigned long error = ERR_peek_last_error();
  const bool is_end =
      ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (error != 0 && !is_end) throw_openssl_error(errc::bad_certificate, part);
  ERR_clear_error();
}

}  // namespace

key_pair load_key_pair(const certificate& source) {
  key_pair pair;
  const std::string chain = source.chain.read();
  std::string password = source.password;
  const bio_ptr reader = reader_of(chain);
  pair.leaf.reset(PEM_read_bio_X509_AUX(reader.get(), nullptr, &give_password, &password));
  if (pair.leaf == nullptr) {
    throw_openssl_error(errc::bad_certificate, "gyre::tls: certificate chain");
  }
  while (
      x509_ptr certificate{PEM_read_bio_X509(reader.get(), nullptr, &give_password, &password)}) {
    pair.issuers.push_back(std::move(certificate));
  }
  expect_end("gyre::tls: certificate chain");
  const std::string key_text = source.key.empty() ? chain : source.key.read();
  const bio_ptr key_reader = reader_of(key_text);
  pair.key.reset(PEM_read_bio_PrivateKey(key_reader.get(), nullptr, &give_password, &password));
  if (pair.key == nullptr) throw_openssl_error(errc::bad_private_key, "gyre::tls: private key");
  if (X509_check_private_key(pair.leaf.get(), pair.key.get()) != 1) {
    throw_openssl_error(errc::key_mismatch, "gyre::tls: private key");
  }
  return pair;
}

void use_key_pair(SSL_CTX* context, const key_pair& pair) {
  if (SSL_CTX_use_certificate(context, pair.leaf.get()) != 1) {
    throw_openssl_error(errc::bad_certificate, "gyre::tls: certificate");
  }
  for (const x509_ptr& issuer : pair.issuers) {
    if (SSL_CTX_add1_chain_cert(context, issuer.get()) != 1) {
      throw_openssl_error(errc::bad_certificate, "gyre::tls: certificate chain");
    }
  }
  if (SSL_CTX_use_PrivateKey(context, pair.key.get()) != 1) {
    throw_openssl_error(errc::bad_private_key, "gyre::tls: private key");
  }
}

bool add_trusted_authorities(SSL_CTX* context, const pem& authorities, bool name_to_clients) {
  const std::string text = authorities.read();
  const bio_ptr reader = reader_of(text);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  bool has_any = false;
  while (const x509_ptr certificate{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1 ||
        (name_to_clients && SSL_CTX_add_client_CA(context, certificate.get()) != 1)) {
      throw_openssl_error(errc::bad_certificate, "gyre::tls: authorities");
    }
    has_any = true;
  }
  expect_end("gyre::tls: authorities");
  return has_any;
}

void trust_all(SSL_CTX* context, const std::vector<pem>& authorities) {
  for (const pem& authority : authorities) {
    if (!add_trusted_authorities(context, authority, false)) {
      throw std::system_error(errc::bad_certificate, "gyre::tls: authorities");
    }
  }
}

void use_revocation_lists(SSL_CTX* context, const std::vector<pem>& lists) {
  if (lists.empty()) return;
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  for (const pem& source : lists) {
    const std::string text = source.read();
    const bio_ptr reader = reader_of(text);
    bool has_any = false;
    while (
        const x509_crl_ptr list{PEM_read_bio_X509_CRL(reader.get(), nullptr, nullptr, nullptr)}) {
      if (X509_STORE_add_crl(store, list.get()) != 1) {
        throw_openssl_error(errc::bad_certificate, "gyre::tls: revocation list");
      }
      has_any = true;
    }
    expect_end("gyre::tls: revocation list");
    if (!has_any) throw std::system_error(errc::bad_certificate, "gyre::tls: revocation list");
  }
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
}

}  // namespace gyre::tls::detail
