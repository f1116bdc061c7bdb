// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/error.hpp>

#include <gyre/base/detail/enum_category.hpp>

namespace gyre::tls {
namespace {

const char* message_of(errc code) noexcept {
  switch (code) {
    case errc::handshake_failed: return "the TLS handshake failed";
    case errc::handshake_timeout: return "the TLS handshake was not done in time";
    case errc::handshake_too_large: return "the TLS handshake has too many bytes";
    case errc::handshake_ended: return "the peer closed the connection within the TLS handshake";
    case errc::plain_http: return "a plain HTTP request came where TLS is spoken";
    case errc::not_tls: return "the peer does not speak TLS";
    case errc::no_shared_version: return "the peers have no version of TLS in common";
    case errc::no_shared_cipher: return "the peers have no cipher in common";
    case errc::no_shared_application: return "the peers have no application protocol in common";
    case errc::unknown_server_name: return "no certificate is for the name that the client wants";
    case errc::refused_by_peer: return "the peer refused with an alert";
    case errc::certificate_expired: return "the certificate has expired";
    case errc::certificate_not_yet_valid: return "the certificate is not yet valid";
    case errc::certificate_self_signed:
      return "the certificate is self-signed, or its root is not trusted";
    case errc::certificate_unknown_issuer: return "the certificate has an unknown issuer";
    case errc::certificate_wrong_host: return "the certificate is for another host";
    case errc::certificate_revoked: return "the certificate has been revoked";
    case errc::certificate_refused: return "the certificate was refused";
    case errc::certificate_missing: return "the peer has sent no certificate";
    case errc::truncated: return "the connection ended without close_notify: bytes may be missing";
    case errc::bad_record: return "the peer has sent a bad record";
    case errc::bad_certificate: return "no certificate in PEM was found";
    case errc::bad_private_key: return "no private key in PEM was found, or its password is wrong";
    case errc::key_mismatch: return "the private key does not belong to the certificate";
    case errc::bad_configuration: return "OpenSSL refuses an option";
  }
  return "unknown error";
}

std::errc condition_of(errc code) noexcept {
  switch (code) {
    case errc::handshake_failed:
    case errc::bad_record: return std::errc::protocol_error;
    case errc::handshake_timeout: return std::errc::timed_out;
    case errc::handshake_too_large: return std::errc::message_size;
    case errc::certificate_expired:
    case errc::certificate_not_yet_valid:
    case errc::certificate_self_signed:
    case errc::certificate_unknown_issuer:
    case errc::certificate_wrong_host:
    case errc::certificate_revoked:
    case errc::certificate_refused:
    case errc::certificate_missing: return std::errc::permission_denied;
    default: return {};
  }
}

}  // namespace

const std::error_category& tls_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.tls", message_of, condition_of);
  return category;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), tls_category()};
}

}  // namespace gyre::tls
