// SPDX-License-Identifier: Apache-2.0
// credentials: a user's name and password, and the keys that SCRAM derives from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::postgres::detail {

/// A hash of SHA-256, which is also the size of SCRAM's keys.
using digest = std::array<std::byte, 32>;

/// The keys of SCRAM-SHA-256 for a password, a salt and a number of iterations (RFC 5802, 3).
struct scram_keys {
  digest client_key{};
  digest server_key{};
};

/// Shared by the connections of one user, so that the keys are derived once: 4096 iterations, the
/// server's default, take more than a millisecond.
///
/// Thread-safety: the loop's thread.
class credentials {
 public:
  credentials(std::string user, std::string password);
  credentials(const credentials&) = delete;
  credentials& operator=(const credentials&) = delete;
  /// Erases the secrets from memory.
  ~credentials();

  const std::string& user() const noexcept { return user_; }
  const std::string& password() const noexcept { return password_; }

  /// The keys, derived unless they are those of the last call. Throws std::system_error if OpenSSL
  /// fails.
  const scram_keys& keys_for(std::span<const std::byte> salt, std::uint32_t iterations);
  /// The text that proves the password by MD5, with the server's salt. Throws std::system_error if
  /// OpenSSL has no MD5.
  std::string md5_proof(std::span<const std::byte> salt) const;

 private:
  const std::string user_;
  std::string password_;
  std::vector<std::byte> salt_;
  std::uint32_t iterations_ = 0;
  scram_keys keys_;
};

/// HMAC with SHA-256. Throws std::system_error if OpenSSL fails.
digest hmac_sha256(const digest& key, std::string_view text);
/// SHA-256. Throws std::system_error if OpenSSL fails.
digest sha256(std::span<const std::byte> bytes);

}  // namespace gyre::postgres::detail
