// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/failure.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>

namespace gyre::tls::detail {
namespace {

using gyre::detail::to_lower;

std::string common_name_of(X509* certificate) {
  std::array<char, 256> text{};
  const int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                               text.data(), static_cast<int>(text.size()));
  return length > 0 ? to_lower(std::string_view(text.data(), static_cast<std::size_t>(length)))
                    : std::string();
}

// "a.example, b.example and 3 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  if (names.empty()) return "no DNS name (a common name does not count)";
  std::string text = names.front();
  for (std::size_t i = 1; i < std::min(names.size(), most); ++i) text.append(", ").append(names[i]);
  if (names.size() > most) {
    text.append(" and ").append(std::to_string(names.size() - most)).append(" more");
  }
  return text;
}

failure verification_failure(long result, std::string_view host,
                             const std::vector<std::string>& names) {
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return {errc::certificate_expired, {}};
    case X509_V_ERR_CERT_NOT_YET_VALID: return {errc::certificate_not_yet_valid, {}};
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN: return {errc::certificate_self_signed, {}};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: return {errc::certificate_unknown_issuer, {}};
    case X509_V_ERR_CERT_REVOKED: return {errc::certificate_revoked, {}};
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: {
      std::string text = "certificate is for ";
      text.append(listed(names)).append(", not ").append(host);
      return {errc::certificate_wrong_host, std::move(text)};
    }
    default: return {errc::certificate_refused, X509_verify_cert_error_string(result)};
  }
}

errc code_of(int reason, bool established) noexcept {
  switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST: return errc::plain_http;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH: return established ? errc::bad_record : errc::not_tls;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
    case SSL_R_NO_PROTOCOLS_AVAILABLE: return errc::no_shared_version;
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_CIPHERS_AVAILABLE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM: return errc::no_shared_cipher;
    case SSL_R_NO_APPLICATION_PROTOCOL: return errc::no_shared_application;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return errc::certificate_missing;
    case SSL_R_EXCESSIVE_MESSAGE_SIZE: return errc::handshake_too_large;
    default: break;
  }
  if (reason > SSL_AD_REASON_OFFSET) return errc::refused_by_peer;
  return established ? errc::bad_record : errc::handshake_failed;
}

}  // namespace

std::vector<std::string> dns_names_of(X509* certificate) {
  std::vector<std::string> names;
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const each = sk_GENERAL_NAME_value(all, i);
    if (each->type != GEN_DNS) continue;
    const auto* const text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(each->d.dNSName));
    const auto size = static_cast<std::size_t>(ASN1_STRING_length(each->d.dNSName));
    names.push_back(to_lower(std::string_view(text, size)));
  }
  GENERAL_NAMES_free(all);
  return names;
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names = dns_names_of(certificate);
  if (names.empty()) {
    if (std::string name = common_name_of(certificate); !name.empty()) names.push_back(name);
  }
  return names;
}

bool is_past_its_certificate(const SSL_SESSION* session) noexcept {
  const X509* const peer = SSL_SESSION_get0_peer(const_cast<SSL_SESSION*>(session));
  return peer != nullptr && X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0;
}

failure failure_of(SSL* ssl, bool established, std::string_view host,
                   const std::vector<std::string>& names) {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  failure found;
  const long verified = SSL_get_verify_result(ssl);
  if (ERR_GET_LIB(error) == ERR_LIB_SYS || error == 0) {
    found = {established ? errc::bad_record : errc::handshake_failed, {}};
  } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
    found = verification_failure(verified, host, names);
  } else {
    found.code = code_of(reason, established);
    if (const char* const text = ERR_reason_error_string(error)) found.text = text;
  }
  ERR_clear_error();
  return found;
}

void throw_openssl_error(std::error_code code, std::string text) {
  if (const unsigned long error = ERR_peek_last_error(); error != 0) {
    if (const char* const reason = ERR_reason_error_string(error)) {
      text += text.empty() ? "" : ": ";
      text += reason;
    }
  }
  ERR_clear_error();
  throw std::system_error(code, text);
}

}  // namespace gyre::tls::detail
