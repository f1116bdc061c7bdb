// SPDX-License-Identifier: Apache-2.0
// tls::errc: errors of TLS, such as a certificate that was refused, or an end that was forged.
//
//     auto secure = co_await gyre::as_expected(gyre::tls::connect(server));
//     if (!secure && secure.error() == gyre::tls::errc::certificate_expired) co_return;
#pragma once

#include <system_error>
#include <type_traits>

namespace gyre::tls {

/// Errors that gyre or OpenSSL decides on, besides those of the system. Exceptions add details to
/// the message: "certificate is for a.example, not b.example".
enum class errc {
  // The next codes are errors of handshakes.

  handshake_failed = 1,       ///< another error of the protocol; std::errc::protocol_error
  handshake_timeout = 2,      ///< the handshake exceeded handshake_timeout; std::errc::timed_out
  handshake_too_large = 3,    ///< the handshake exceeded 256 KiB; std::errc::message_size
  handshake_ended = 4,        ///< the peer closed the connection before the handshake was done
  plain_http = 5,             ///< a plain HTTP request came instead of TLS
  not_tls = 6,                ///< bytes came that are not TLS
  no_shared_version = 7,      ///< no version of TLS that both ends allow
  no_shared_cipher = 8,       ///< no cipher that both ends allow
  no_shared_application = 9,  ///< no application protocol (ALPN) of the client is the server's
  unknown_server_name = 10,   ///< the client asked for a name that no certificate is for
  refused_by_peer =
      11,  ///< the peer ended the handshake with an alert, which the exception's text names

  // The next codes are errors of the peer's certificates, all equal to
  // std::errc::permission_denied.

  certificate_expired = 20,
  certificate_not_yet_valid = 21,
  certificate_self_signed = 22,  ///< neither it nor the root of its chain is among the authorities
  certificate_unknown_issuer = 23,
  certificate_wrong_host = 24,
  certificate_revoked = 25,
  certificate_refused = 26,  ///< another reason, which the exception's text names
  certificate_missing = 27,  ///< the client has sent none, and the server demands one

  // The next codes are errors of established connections.

  /// The connection ended without the peer's close_notify: the last bytes may have been cut off.
  truncated = 40,
  /// Bytes that are not a record of this connection, or dozens of changes of keys within a minute
  /// and no data in proportion; std::errc::protocol_error.
  bad_record = 41,

  // The next codes are errors of the configuration.

  bad_certificate = 60,    ///< no certificate in PEM in a file or text
  bad_private_key = 61,    ///< no private key in PEM, or a wrong password for it
  key_mismatch = 62,       ///< the private key is not the certificate's
  bad_configuration = 63,  ///< an option that OpenSSL refuses
};

/// Returns the category of errc, "gyre.tls". Any thread.
const std::error_category& tls_category() noexcept;
std::error_code make_error_code(errc code) noexcept;

}  // namespace gyre::tls

template <>
struct std::is_error_code_enum<gyre::tls::errc> : std::true_type {};
