// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/channel_binding.hpp>

#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/detail/openssl.hpp>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/x509.h>

#include <array>
#include <span>

namespace gyre::tls {
namespace {

// Returns the hash of the certificate's signature; SHA-256 in place of MD5 and SHA-1 (RFC 5929,
// 4.1).
const EVP_MD* hash_of(const X509* certificate) noexcept {
  int hash = NID_undef;
  if (X509_get_signature_info(const_cast<X509*>(certificate), &hash, nullptr, nullptr, nullptr) !=
      1) {
    return nullptr;
  }
  if (hash == NID_undef) return nullptr;
  if (hash == NID_md5 || hash == NID_sha1) return EVP_sha256();
  return EVP_get_digestbynid(hash);
}

}  // namespace

std::vector<std::byte> server_end_point(const net::layer& secure) {
  const auto* const protocol = dynamic_cast<const detail::engine*>(&secure);
  if (protocol == nullptr || protocol->native() == nullptr || protocol->loaded().is_server)
    return {};
  const X509* const certificate = SSL_get0_peer_certificate(protocol->native());
  const EVP_MD* const hash = certificate == nullptr ? nullptr : hash_of(certificate);
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned size = 0;
  const bool has_digest = hash != nullptr && X509_digest(certificate, hash, sum.data(), &size) == 1;
  ERR_clear_error();
  if (!has_digest) return {};
  const auto bytes = std::as_bytes(std::span(sum)).first(size);
  return {bytes.begin(), bytes.end()};
}

}  // namespace gyre::tls
