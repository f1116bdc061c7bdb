// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/detail/failure.hpp>

#include <gyre/base/detail/ascii.hpp>
#include <gyre/net/address.hpp>
#include <gyre/tls/error.hpp>

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <span>

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

std::span<const unsigned char> bytes_of(const ASN1_STRING* text) {
  return {ASN1_STRING_get0_data(text), static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string lower_dns_name_of(const GENERAL_NAME& name) {
  const std::span<const unsigned char> bytes = bytes_of(name.d.dNSName);
  return to_lower({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string address_text(const GENERAL_NAME& name) {
  const std::span<const unsigned char> bytes = bytes_of(name.d.iPAddress);
  net::ip_address::v4_bytes v4;
  net::ip_address::v6_bytes v6;
  if (bytes.size() == v4.size()) {
    std::ranges::copy(bytes, v4.begin());
    return net::ip_address(v4).to_string();
  }
  if (bytes.size() != v6.size()) return "a malformed address";
  std::ranges::copy(bytes, v6.begin());
  return net::ip_address(v6).to_string();
}

// Returns the subject alternative names of one kind as text.
std::vector<std::string> alternative_names(X509* certificate, int kind,
                                           std::string (*text_of)(const GENERAL_NAME&)) {
  const std::unique_ptr<GENERAL_NAMES, freer<&GENERAL_NAMES_free>> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> result;
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME& name = *sk_GENERAL_NAME_value(all.get(), i);
    if (name.type == kind) result.push_back(text_of(name));
  }
  return result;
}

// Returns the first names of the list, such as "a.example, b.example and 3 more".
std::string join(const std::vector<std::string>& names) {
  constexpr std::size_t max_names = 3;
  if (names.empty()) return "no DNS name or address (a common name does not count)";
  std::string text = names.front();
  for (std::size_t i = 1; i < std::min(names.size(), max_names); ++i) {
    text.append(", ").append(names[i]);
  }
  if (names.size() > max_names) {
    text.append(" and ").append(std::to_string(names.size() - max_names)).append(" more");
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
      text.append(join(names)).append(", not ").append(host);
      return {errc::certificate_wrong_host, std::move(text)};
    }
    default: return {errc::certificate_refused, X509_verify_cert_error_string(result)};
  }
}

errc code_of(int reason, bool is_established) noexcept {
  switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST: return errc::plain_http;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH: return is_established ? errc::bad_record : errc::not_tls;
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
  return is_established ? errc::bad_record : errc::handshake_failed;
}

}  // namespace

std::vector<std::string> hosts_of(X509* certificate) {
  std::vector<std::string> hosts = alternative_names(certificate, GEN_DNS, &lower_dns_name_of);
  std::ranges::move(alternative_names(certificate, GEN_IPADD, &address_text),
                    std::back_inserter(hosts));
  return hosts;
}

std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names = alternative_names(certificate, GEN_DNS, &lower_dns_name_of);
  if (names.empty()) {
    if (std::string name = common_name_of(certificate); !name.empty()) names.push_back(name);
  }
  return names;
}

bool has_expired_certificate(const SSL_SESSION* session) noexcept {
  const X509* const peer = SSL_SESSION_get0_peer(const_cast<SSL_SESSION*>(session));
  return peer != nullptr && X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0;
}

failure take_failure(SSL* ssl, bool is_established, std::string_view host,
                     const std::vector<std::string>& names) {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  failure result;
  const long verify_result = SSL_get_verify_result(ssl);
  if (ERR_GET_LIB(error) == ERR_LIB_SYS || error == 0) {
    result = {is_established ? errc::bad_record : errc::handshake_failed, {}};
  } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verify_result != X509_V_OK) {
    result = verification_failure(verify_result, host, names);
  } else {
    result.code = code_of(reason, is_established);
    if (const char* const text = ERR_reason_error_string(error)) result.text = text;
  }
  ERR_clear_error();
  return result;
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
