// SPDX-License-Identifier: Apache-2.0
// tls_context: the certificates and rules of TLS servers or clients, shared by their connections.
//
//     auto context = gyre::tls::tls_context::server(
//         {.certificates = {{.chain = gyre::tls::pem::file("site.pem"),
//                            .key = gyre::tls::pem::file("site.key")}},
//          .application_protocols = {"http/1.1"}});
//     context.reload();  // reads the files again, for new connections
#pragma once

#include <gyre/base/duration.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gyre::tls {

namespace detail {
class context_state;
}  // namespace detail

/// Text in PEM, or a file that has it, read when a context is made and at each reload(). A value.
class pem {
 public:
  pem() = default;
  /// Names a file that has the text.
  [[nodiscard]] static pem file(std::string path) { return {std::move(path), true}; }
  /// Holds the text itself.
  [[nodiscard]] static pem text(std::string text) { return {std::move(text), false}; }

  bool empty() const noexcept { return content_.empty(); }
  /// Returns the text. Throws std::system_error if the file cannot be read.
  [[nodiscard]] std::string read() const;

 private:
  pem(std::string content, bool is_file) : content_(std::move(content)), is_file_(is_file) {}

  std::string content_;
  bool is_file_ = false;
};

/// A certificate with its private key.
struct certificate {
  pem chain;                  ///< the certificate, and then those of its issuers but the root
  pem key;                    ///< the private key; empty if the text of the chain has it
  std::string password = {};  ///< the password of the key
  /// The names for which the certificate is chosen: "example.org", "*.example.org". If empty, the
  /// names in the certificate.
  std::vector<std::string> names = {};
  /// An OCSP response (DER), for clients that ask for one.
  std::vector<std::byte> ocsp_staple = {};
};

/// The versions of TLS that gyre speaks.
enum class version : std::uint8_t { tls_1_2, tls_1_3 };

/// Whether a server asks clients for certificates: not at all, optionally, or as a requirement.
enum class client_certificates : std::uint8_t { ignored, requested, required };

/// Options of a server's context.
struct server_options {
  /// The certificates, at least one. The server name that the client sends (SNI) chooses among
  /// them: an exact name goes before a wildcard. A name may have several with different kinds of
  /// keys, such as ECDSA and RSA: each client gets one that it can verify, ECDSA first. Among those
  /// of one kind the first is chosen.
  std::vector<certificate> certificates;
  /// Whether a handshake without a server name, or with a name that no certificate is for, fails
  /// with errc::unknown_server_name. Otherwise it gets the first certificate.
  bool refuse_unknown_names = false;
  /// Protocols of ALPN, the preferred one first. Clients that offer only other protocols are
  /// refused.
  std::vector<std::string> application_protocols = {};
  /// Whether clients authenticate by certificates (mutual TLS): a certificate that is sent must be
  /// valid, by an issuer of `client_authorities`, which may be roots, intermediate authorities, or
  /// certificates of the clients themselves.
  client_certificates clients = client_certificates::ignored;
  pem client_authorities = {};
  /// Lists of revoked certificates (CRLs) of these authorities; with any, each must have one.
  std::vector<pem> revocation_lists = {};
  /// The oldest version that is accepted.
  version min_version = version::tls_1_2;
  /// The newest version that is accepted.
  version max_version = version::tls_1_3;
  /// Groups of key agreement, the preferred one first, by OpenSSL's names. Each handshake that a
  /// peer begins costs one agreement: a tenth of a millisecond with these, but up to 200 ms with
  /// the finite fields (ffdhe8192), so that a few handshakes a second hold up a loop (D(HE)at,
  /// CVE-2022-40735). No cipher of TLS 1.2 uses finite fields.
  /// Errors: errc::bad_configuration for a name that OpenSSL does not know.
  std::vector<std::string> groups = {"X25519", "P-256", "P-384"};
  /// The largest RSA key in a client's certificates; a larger one fails the handshake with
  /// errc::certificate_refused before any signature of the chain is checked.
  std::size_t max_rsa_bits = 4096;
  /// Session tickets, by which clients resume without a full handshake. Their keys live as long,
  /// and half of that time a key is used for new tickets. No use to a client whose certificate has
  /// expired since. Zero: none. More than seven days count as seven (RFC 8446, 4.6.1). In TLS 1.3
  /// they go with the server's first bytes after the handshake: if they came before, a client that
  /// never reads would reset the connection when it closes, and lose bytes that it has sent.
  duration ticket_lifetime = std::chrono::hours{12};
  /// The time limit of a handshake; zero means no limit.
  duration handshake_timeout = std::chrono::seconds{10};
};

/// Options of a client's context.
struct client_options {
  /// Whether the server's certificate must be valid, and for the host: by a DNS name or an address,
  /// as a common name does not count (RFC 9525). False: encryption without any proof of who is at
  /// the other end.
  bool verify = true;
  /// Whether the system's authorities are trusted, besides `authorities`.
  bool system_authorities = true;
  /// Roots, intermediate authorities, or certificates of servers themselves.
  std::vector<pem> authorities = {};
  /// Lists of revoked certificates (CRLs); with any, each authority must have one.
  std::vector<pem> revocation_lists = {};
  /// The client's own certificate, for mutual TLS.
  std::optional<certificate> own_certificate = {};
  /// Protocols of ALPN, the preferred one first.
  std::vector<std::string> application_protocols = {};
  /// The oldest version that is offered.
  version min_version = version::tls_1_2;
  /// The newest version that is offered.
  version max_version = version::tls_1_3;
  /// Groups of key agreement, the preferred one first, by the names that server_options documents.
  /// A TLS 1.2 server that has only a certificate of another curve, such as P-521, refuses the
  /// client.
  std::vector<std::string> groups = {"X25519", "P-256", "P-384"};
  /// The largest RSA key in a server's certificates, in bits. A larger key fails the handshake with
  /// errc::certificate_refused.
  std::size_t max_rsa_bits = 8192;
  /// Whether to ask the server for an OCSP response, which connection_info has unchecked.
  bool request_ocsp_staple = false;
  /// Limit of a handshake; zero: none.
  duration handshake_timeout = std::chrono::seconds{10};
};

/// A handle of a context: copies share it. Renegotiation and compression are always off.
///
/// Thread-safety: any thread.
/// Errors: server(), client() and reload() throw std::system_error with the file's name: those of
/// reading files, and the errc of configuration; std::invalid_argument for a negative time.
/// reload() throws also std::logic_error for options of the other side, and errc::bad_configuration
/// for an empty context.
/// Complexity: server(), client() and reload() read files, which blocks. A client's context with
/// the system's authorities takes milliseconds and some MiB: share one. A copy is a shared pointer.
class tls_context {
 public:
  /// Constructs an empty context, which connections refuse with errc::bad_configuration.
  tls_context() noexcept = default;
  /// Makes the context of a server. Reads the files that the options name.
  [[nodiscard]] static tls_context server(server_options options);
  /// Makes the context of a client. Reads the files that the options name.
  [[nodiscard]] static tls_context client(client_options options = {});
  /// Returns a client's context with the default options, which the first call makes. Throws the
  /// exceptions of client() if it cannot be made; the next call then tries again.
  [[nodiscard]] static const tls_context& default_client();

  explicit operator bool() const noexcept { return state_ != nullptr; }
  bool is_server() const noexcept;
  std::chrono::nanoseconds handshake_timeout() const noexcept;

  /// Reads all files again, or takes other options of the same side, for new connections. Existing
  /// connections keep the former options. Tickets stay valid, unless the rules or lists for
  /// certificates of clients change. If it throws, nothing changes.
  void reload() const;
  void reload(server_options options) const;
  void reload(client_options options) const;

  /// The function below is for gyre's own rooms.
  const std::shared_ptr<detail::context_state>& state() const noexcept { return state_; }

 private:
  explicit tls_context(std::shared_ptr<detail::context_state> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<detail::context_state> state_;
};

}  // namespace gyre::tls
