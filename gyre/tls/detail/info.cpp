// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/info.hpp>

#include <openssl/err.h>
#include <openssl/pem.h>

#include <span>

namespace gyre::tls::detail {
namespace {

std::string content_of(BIO* memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory, &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : std::string();
}

void add_peer_certificate(SSL* ssl, connection_info& info) {
  const x509_ptr peer{SSL_get1_peer_certificate(ssl)};
  if (peer == nullptr) return;
  const bio_ptr text(BIO_new(BIO_s_mem()));
  const bio_ptr subject(BIO_new(BIO_s_mem()));
  if (text == nullptr || subject == nullptr) return;
  if (PEM_write_bio_X509(text.get(), peer.get()) == 1) {
    info.peer_certificate = content_of(text.get());
  }
  X509_NAME_print_ex(subject.get(), X509_get_subject_name(peer.get()), 0,
                     XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  info.peer_subject = content_of(subject.get());
}

}  // namespace

connection_info info_of(SSL* ssl) {
  connection_info info{.protocol = SSL_get_version(ssl), .cipher = SSL_get_cipher_name(ssl)};
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &size);
  if (size > 0) info.application_protocol.assign(reinterpret_cast<const char*>(protocol), size);
  if (const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name)) {
    info.server_name = name;
  }
  info.resumed = SSL_session_reused(ssl) == 1;
  add_peer_certificate(ssl, info);
  const unsigned char* staple = nullptr;
  const long staple_size = SSL_get_tlsext_status_ocsp_resp(ssl, static_cast<void*>(&staple));
  if (staple != nullptr && staple_size > 0 && SSL_is_server(ssl) == 0) {
    const auto bytes = std::as_bytes(std::span(staple, static_cast<std::size_t>(staple_size)));
    info.ocsp_staple.assign(bytes.begin(), bytes.end());
  }
  ERR_clear_error();
  return info;
}

}  // namespace gyre::tls::detail
