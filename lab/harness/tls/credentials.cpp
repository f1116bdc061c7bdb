// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/tls/credentials.hpp>

#include <lab/harness/timing.hpp>
#include <tests/support/tls_certificates.hpp>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace lab::tls {
namespace {

constexpr const char* certificate_variable = "GYRE_LAB_TLS_CERTIFICATE";
constexpr const char* key_variable = "GYRE_LAB_TLS_KEY";
constexpr std::size_t record_bytes = 16384;
constexpr int tag_bytes = 16;

using memory_bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using certificate_pointer = std::unique_ptr<X509, decltype(&X509_free)>;
using key_pointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using cipher_pointer = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

void check(bool done, const char* step) {
  if (!done) throw std::runtime_error(std::string("OpenSSL: ") + step);
}

memory_bio reader_of(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

certificate_pointer read_certificate(const std::string& text) {
  return {PEM_read_bio_X509(reader_of(text).get(), nullptr, nullptr, nullptr), &X509_free};
}

context make_context(const SSL_METHOD* method) {
  context made(SSL_CTX_new(method), &SSL_CTX_free);
  check(made != nullptr, "SSL_CTX_new");
  SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(made.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return made;
}

}  // namespace

credentials make_credentials() {
  const gyre::test::issued made = gyre::test::test_authority::self_signed();
  setenv(certificate_variable, made.certificate.c_str(), 1);
  setenv(key_variable, made.key.c_str(), 1);
  return {made.certificate, made.key};
}

credentials inherited_credentials() {
  const char* const certificate = std::getenv(certificate_variable);
  const char* const key = std::getenv(key_variable);
  if (certificate == nullptr || key == nullptr) throw std::runtime_error("no certificate");
  return {certificate, key};
}

context make_server_context(const credentials& own) {
  context made = make_context(TLS_server_method());
  const certificate_pointer certificate = read_certificate(own.certificate);
  const key_pointer key(
      PEM_read_bio_PrivateKey(reader_of(own.key).get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  check(SSL_CTX_use_certificate(made.get(), certificate.get()) == 1, "the certificate");
  check(SSL_CTX_use_PrivateKey(made.get(), key.get()) == 1, "the key");
  SSL_CTX_set_options(made.get(), SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(made.get(), SSL_SESS_CACHE_OFF);
  const std::array<unsigned char, 3> name{'l', 'a', 'b'};
  SSL_CTX_set_session_id_context(made.get(), name.data(), name.size());
  return made;
}

context make_client_context(const credentials& of_server) {
  context made = make_context(TLS_client_method());
  const certificate_pointer trusted = read_certificate(of_server.certificate);
  check(X509_STORE_add_cert(SSL_CTX_get_cert_store(made.get()), trusted.get()) == 1,
        "the trusted certificate");
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_session_cache_mode(made.get(),
                                 SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  return made;
}

double cipher_microseconds(std::size_t bytes) {
  constexpr double least_seconds = 0.02;
  const std::array<unsigned char, 32> key{};
  std::array<unsigned char, 12> nonce{};
  std::array<unsigned char, tag_bytes> tag{};
  std::vector<unsigned char> plain(std::min(bytes, record_bytes));
  std::vector<unsigned char> sealed(plain.size());
  const cipher_pointer sealing(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  const cipher_pointer opening(EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  check(EVP_EncryptInit_ex2(sealing.get(), EVP_aes_256_gcm(), key.data(), nonce.data(), nullptr) ==
                1 &&
            EVP_DecryptInit_ex2(opening.get(), EVP_aes_256_gcm(), key.data(), nonce.data(),
                                nullptr) == 1,
        "AES-256-GCM");

  std::size_t done = 0;
  const double before = cpu_seconds();
  double spent = 0;
  do {
    ++nonce[0];
    int size = 0;
    int rest = 0;
    const int whole = static_cast<int>(plain.size());
    EVP_EncryptInit_ex2(sealing.get(), nullptr, nullptr, nonce.data(), nullptr);
    EVP_EncryptUpdate(sealing.get(), sealed.data(), &size, plain.data(), whole);
    EVP_EncryptFinal_ex(sealing.get(), sealed.data() + size, &rest);
    EVP_CIPHER_CTX_ctrl(sealing.get(), EVP_CTRL_AEAD_GET_TAG, tag_bytes, tag.data());
    EVP_DecryptInit_ex2(opening.get(), nullptr, nullptr, nonce.data(), nullptr);
    EVP_DecryptUpdate(opening.get(), plain.data(), &size, sealed.data(), whole);
    EVP_CIPHER_CTX_ctrl(opening.get(), EVP_CTRL_AEAD_SET_TAG, tag_bytes, tag.data());
    check(EVP_DecryptFinal_ex(opening.get(), plain.data() + size, &rest) == 1, "decryption");
    done += plain.size();
    spent = cpu_seconds() - before;
  } while (spent < least_seconds);
  return spent * 1e6 * static_cast<double>(bytes) / static_cast<double>(done);
}

}  // namespace lab::tls
