// SPDX-License-Identifier: Apache-2.0
// nkey: a key of Ed25519, as NATS writes it, which signs the server's nonce.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace gyre::nats::detail {

/// The private key of a seed "SU…": the kind of the key, 32 bytes and a checksum, in Base32.
///
/// Errors: the constructor throws std::system_error (errc::bad_credentials) for another text; the
/// message has nothing of it.
class nkey {
 public:
  explicit nkey(std::string_view seed);
  nkey(const nkey&) = delete;
  nkey& operator=(const nkey&) = delete;
  /// Overwrites the key.
  ~nkey();

  /// Returns the public key, "U…".
  std::string public_key() const;
  /// The signature of `text`, in Base64 for URLs without padding.
  std::string sign(std::string_view text) const;

 private:
  static constexpr std::size_t key_size = 32;

  unsigned char kind_ = 0;
  std::array<unsigned char, key_size> seed_{};
};

/// The JWT and the seed in the text of a file of credentials.
struct credentials {
  std::string jwt;
  std::string seed;
};
/// Throws std::system_error (errc::bad_credentials).
credentials parse_credentials(std::string_view text);

}  // namespace gyre::nats::detail
