// SPDX-License-Identifier: Apache-2.0
// Certificates of tests, made by OpenSSL when a test runs: an authority, what it issues, its list
// of revoked ones.
#pragma once

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gyre::test {

/// A certificate and its key, in PEM.
struct issued {
  std::string certificate;
  std::string key;
};

struct certificate_request {
  std::string common_name = "localhost";
  std::string alternative_names = "DNS:localhost,IP:127.0.0.1";  // as in openssl.cnf
  long valid_from = -3600;                                       // in seconds from now
  long valid_to = 86400;
  unsigned rsa_bits = 0;  // zero: a key of P-256
};

namespace detail {

inline void check(bool done) {
  if (!done) throw std::runtime_error("OpenSSL could not make a certificate");
}

template <class Write>
std::string pem_of(Write write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
  check(write(memory.get()) == 1);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

inline void add_extension(X509* to, X509* issuer, int kind, const std::string& text) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* const made = X509V3_EXT_conf_nid(nullptr, &context, kind, text.c_str());
  check(made != nullptr && X509_add_ext(to, made, -1) == 1);
  X509_EXTENSION_free(made);
}

}  // namespace detail

/// An authority of its own, which can also issue to itself.
class test_authority {
 public:
  explicit test_authority(const std::string& name = "gyre test authority")
      : test_authority(name, nullptr) {}
  /// An authority below `root`.
  test_authority(const std::string& name, const test_authority& root)
      : test_authority(name, &root) {}

  std::string certificate() const { return pem_of(certificate_.get()); }

  issued issue(const certificate_request& request = {}) {
    const key_ptr key = key_for(request);
    const x509_ptr made(X509_new(), &X509_free);
    fill(made.get(), key.get(), request, certificate_.get());
    add_names(made.get(), certificate_.get(), request);
    sign(made.get());
    return {pem_of(made.get()), pem_of(key.get())};
  }

  static issued self_signed(const certificate_request& request = {}) {
    const key_ptr key = key_for(request);
    const x509_ptr made(X509_new(), &X509_free);
    fill(made.get(), key.get(), request, nullptr);
    add_names(made.get(), made.get(), request);
    detail::check(X509_sign(made.get(), key.get(), EVP_sha256()) > 0);
    return {pem_of(made.get()), pem_of(key.get())};
  }

  /// A list of revoked certificates, in PEM; empty text: of none.
  std::string revocation_list(const std::string& revoked = {}) {
    const std::unique_ptr<X509_CRL, decltype(&X509_CRL_free)> list(X509_CRL_new(), &X509_CRL_free);
    X509_CRL_set_version(list.get(), 1);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_.get()));
    const time_ptr from(X509_gmtime_adj(nullptr, -60), &ASN1_TIME_free);
    const time_ptr to(X509_gmtime_adj(nullptr, 86400), &ASN1_TIME_free);
    X509_CRL_set1_lastUpdate(list.get(), from.get());
    X509_CRL_set1_nextUpdate(list.get(), to.get());
    if (!revoked.empty()) {
      BIO* const reader = BIO_new_mem_buf(revoked.data(), static_cast<int>(revoked.size()));
      const x509_ptr of(PEM_read_bio_X509(reader, nullptr, nullptr, nullptr), &X509_free);
      BIO_free(reader);
      X509_REVOKED* const entry = X509_REVOKED_new();
      X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(of.get()));
      X509_REVOKED_set_revocationDate(entry, from.get());
      X509_CRL_add0_revoked(list.get(), entry);
    }
    detail::check(X509_CRL_sign(list.get(), key_.get(), EVP_sha256()) > 0);
    return detail::pem_of(
        [&](BIO* to_memory) { return PEM_write_bio_X509_CRL(to_memory, list.get()); });
  }

 private:
  using key_ptr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using x509_ptr = std::unique_ptr<X509, decltype(&X509_free)>;
  using time_ptr = std::unique_ptr<ASN1_TIME, decltype(&ASN1_TIME_free)>;

  test_authority(const std::string& name, const test_authority* root)
      : key_(key_for({})), certificate_(X509_new(), &X509_free) {
    X509* const own = certificate_.get();
    X509* const issuer = root != nullptr ? root->certificate_.get() : own;
    fill(own, key_.get(), {.common_name = name}, issuer);
    detail::add_extension(own, issuer, NID_basic_constraints, "critical,CA:TRUE");
    detail::add_extension(own, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
    (root != nullptr ? *root : *this).sign(own);
  }

  // An RSA key takes long to make, so the certificates of a program share one of each size.
  static key_ptr key_for(const certificate_request& request) {
    if (request.rsa_bits == 0) return {EVP_EC_gen("P-256"), &EVP_PKEY_free};
    static std::map<unsigned, key_ptr> made;
    auto found = made.find(request.rsa_bits);
    if (found == made.end()) {
      key_ptr fresh(EVP_RSA_gen(request.rsa_bits), &EVP_PKEY_free);
      found = made.emplace(request.rsa_bits, std::move(fresh)).first;
    }
    EVP_PKEY_up_ref(found->second.get());
    return {found->second.get(), &EVP_PKEY_free};
  }
  static std::string pem_of(X509* certificate) {
    return detail::pem_of([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
  }
  static std::string pem_of(EVP_PKEY* key) {
    return detail::pem_of([&](BIO* to) {
      return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
  static void fill(X509* made, EVP_PKEY* key, const certificate_request& request, X509* issuer) {
    static long next_serial = 1;
    X509_set_version(made, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made), next_serial++);
    X509_gmtime_adj(X509_getm_notBefore(made), request.valid_from);
    X509_gmtime_adj(X509_getm_notAfter(made), request.valid_to);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(request.common_name.c_str()),
                               -1, -1, 0);
    X509_set_issuer_name(made, X509_get_subject_name(issuer != nullptr ? issuer : made));
    detail::check(X509_set_pubkey(made, key) == 1);
  }
  static void add_names(X509* made, X509* issuer, const certificate_request& request) {
    if (request.alternative_names.empty()) return;
    detail::add_extension(made, issuer, NID_subject_alt_name, request.alternative_names);
  }
  void sign(X509* made) const { detail::check(X509_sign(made, key_.get(), EVP_sha256()) > 0); }

  key_ptr key_;
  x509_ptr certificate_;
};

}  // namespace gyre::test
