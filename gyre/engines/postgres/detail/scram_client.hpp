// SPDX-License-Identifier: Apache-2.0
// scram_client: the client's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, 7677), without
// I/O.
#pragma once

#include <gyre/engines/postgres/detail/credentials.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gyre::postgres::detail {

/// A SCRAM client's claim about channel binding.
enum class scram_binding : std::uint8_t {
  unsupported,  ///< the connection has no channel to bind to: 'n'
  not_offered,  ///< it has, but the server did not offer -PLUS: 'y', by which the server notices
                ///< whether an attacker has removed its offer
  used,         ///< SCRAM-SHA-256-PLUS by tls-server-end-point
};

/// An exchange of SCRAM with a server. Each message is made from the server's one before it.
///
/// Errors: std::system_error (errc::bad_message) for messages that do not follow SCRAM, and for a
/// number of iterations out of bounds; errc::server_not_authenticated if the server does not know
/// the password either.
class scram_client {
 public:
  /// With fewer iterations an attacker between client and server could find the password from its
  /// proof.
  static constexpr std::uint32_t min_iterations = 4096;
  /// More would hold up the loop for a tenth of a second and longer.
  static constexpr std::uint32_t max_iterations = 250'000;

  /// `channel`: the bytes to bind to, with scram_binding::used. `nonce`: printable characters
  /// without ',', which nobody can guess.
  scram_client(credentials& user, std::string nonce, scram_binding binding,
               std::span<const std::byte> channel);

  /// Returns the client-first-message.
  std::string first_message() const;
  /// Returns the client-final-message.
  std::string final_message(std::string_view server_first);
  /// Returns if the server-final-message proves that the server knows the password.
  void verify(std::string_view server_final) const;

 private:
  std::string gs2_header() const;

  credentials& credentials_;
  const std::string nonce_;
  const scram_binding binding_;
  const std::string channel_input_;  // the channel binding data in Base64
  digest server_signature_{};
};

/// Returns a new nonce for a scram_client. Throws std::system_error if the system has no random
/// numbers.
std::string make_scram_nonce();

}  // namespace gyre::postgres::detail
