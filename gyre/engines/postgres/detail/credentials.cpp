// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/credentials.hpp>

#include <gyre/engines/postgres/detail/saslprep.hpp>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {
namespace {

[[noreturn]] void fail_without(const char* algorithm) {
  ERR_clear_error();
  throw std::system_error(std::make_error_code(std::errc::not_supported),
                          std::string("gyre::postgres: OpenSSL has no ") + algorithm);
}

unsigned char* data_of(digest& bytes) noexcept {
  return reinterpret_cast<unsigned char*>(bytes.data());
}
const unsigned char* data_of(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Returns the MD5 of `first` followed by `second`, in hexadecimal digits.
std::string md5_hex(std::string_view first, std::string_view second) {
  const std::string text = std::string(first).append(second);
  std::array<unsigned char, 16> sum{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), sum.data(), &size, EVP_md5(), nullptr) != 1) {
    fail_without("MD5 (it may be disabled by FIPS); let the server use scram-sha-256");
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : sum) {
    hex.push_back(digits[byte >> 4]);
    hex.push_back(digits[byte & 15]);
  }
  return hex;
}

}  // namespace

digest hmac_sha256(const digest& key, std::string_view text) {
  digest sum{};
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), data_of(sum),
           &size) == nullptr) {
    fail_without("HMAC");
  }
  return sum;
}

digest sha256(std::span<const std::byte> bytes) {
  digest sum{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), data_of(sum), &size, EVP_sha256(), nullptr) != 1) {
    fail_without("SHA-256");
  }
  return sum;
}

credentials::credentials(std::string user, std::string password)
    : user_(std::move(user)), password_(std::move(password)) {}

credentials::~credentials() {
  OPENSSL_cleanse(password_.data(), password_.size());
  OPENSSL_cleanse(&keys_, sizeof(keys_));
}

const scram_keys& credentials::keys_for(std::span<const std::byte> salt, std::uint32_t iterations) {
  if (iterations_ == iterations && std::ranges::equal(salt_, salt)) return keys_;
  iterations_ = 0;
  salt_.assign(salt.begin(), salt.end());
  std::string normal_password = saslprep(password_);
  digest salted_password{};
  const int result = PKCS5_PBKDF2_HMAC(
      normal_password.data(), static_cast<int>(normal_password.size()), data_of(salt),
      static_cast<int>(salt.size()), static_cast<int>(iterations), EVP_sha256(),
      static_cast<int>(salted_password.size()), data_of(salted_password));
  OPENSSL_cleanse(normal_password.data(), normal_password.size());
  if (result != 1) fail_without("PBKDF2");
  keys_ = {.client_key = hmac_sha256(salted_password, "Client Key"),
           .server_key = hmac_sha256(salted_password, "Server Key")};
  OPENSSL_cleanse(&salted_password, sizeof(salted_password));
  iterations_ = iterations;
  return keys_;
}

std::string credentials::md5_proof(std::span<const std::byte> salt) const {
  const std::string_view salt_text(reinterpret_cast<const char*>(salt.data()), salt.size());
  return "md5" + md5_hex(md5_hex(password_, user_), salt_text);
}

}  // namespace gyre::postgres::detail
