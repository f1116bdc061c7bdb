// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/nkey.hpp>

#include <gyre/engines/nats/error.hpp>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <system_error>

namespace gyre::nats::detail {
namespace {

using byte_span = std::span<const unsigned char>;

constexpr std::string_view base32_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr std::string_view base64_letters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr unsigned char seed_prefix = 18U << 3U;  // encodes as 'S' in Base32
constexpr std::size_t seed_size = 2 + 32 + 2;     // two prefix bytes, the key, the checksum
constexpr std::size_t seed_letters = 58;

template <unsigned Bits>
std::string encode(byte_span bytes, std::string_view letters) {
  std::string text;
  unsigned bit_buffer = 0;
  unsigned bits = 0;
  for (const unsigned char byte : bytes) {
    bit_buffer = (bit_buffer << 8U | byte) & 0xFFFFU;
    for (bits += 8; bits >= Bits; bits -= Bits) {
      text += letters[(bit_buffer >> (bits - Bits)) % (1U << Bits)];
    }
  }
  if (bits > 0) text += letters[(bit_buffer << (Bits - bits)) % (1U << Bits)];
  return text;
}

// Returns the CRC-16/XMODEM of the bytes.
std::uint16_t checksum(byte_span bytes) noexcept {
  unsigned sum = 0;
  for (const unsigned char byte : bytes) {
    sum ^= static_cast<unsigned>(byte) << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      sum = (sum & 0x8000U) != 0 ? sum << 1U ^ 0x1021U : sum << 1U;
    }
    sum &= 0xFFFFU;
  }
  return static_cast<std::uint16_t>(sum);
}

[[noreturn]] void refuse_credentials(const char* problem) {
  throw std::system_error(make_error_code(errc::bad_credentials), problem);
}

struct seed_bytes {
  std::array<unsigned char, seed_size> bytes{};
  seed_bytes() = default;
  seed_bytes& operator=(seed_bytes&&) = delete;
  ~seed_bytes() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

bool decode(std::string_view text, seed_bytes& seed) noexcept {
  if (text.size() != seed_letters) return false;
  unsigned bit_buffer = 0;
  unsigned bits = 0;
  std::size_t count = 0;
  for (const char character : text) {
    const std::size_t value = base32_letters.find(character);
    if (value == std::string_view::npos) return false;
    bit_buffer = (bit_buffer << 5U | static_cast<unsigned>(value)) & 0xFFFFU;
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    seed.bytes[count++] = static_cast<unsigned char>(bit_buffer >> bits);
  }
  return count == seed_size;
}

using key_ptr = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

key_ptr private_key(byte_span seed) {
  key_ptr key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()),
              &EVP_PKEY_free);
  if (key == nullptr) throw std::bad_alloc();
  return key;
}

// Returns the line after the line that has "BEGIN " and `label`.
std::optional<std::string> line_below(std::string_view text, std::string_view label) {
  const std::size_t position = text.find(std::string("BEGIN ").append(label));
  if (position == std::string_view::npos) return std::nullopt;
  const std::size_t first = text.find('\n', position);
  if (first == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(first);
  const std::size_t begin = rest.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(begin);
  return std::string(rest.substr(0, rest.find_first_of(" \t\r\n")));
}

}  // namespace

nkey::nkey(std::string_view seed) {
  constexpr const char* message = "gyre::nats::client: the seed of the key is malformed";
  seed_bytes result;
  if (!decode(seed, result)) refuse_credentials(message);
  const byte_span bytes(result.bytes);
  const std::uint16_t expected = checksum(bytes.first(seed_size - 2));
  const unsigned sum = bytes[seed_size - 2] | static_cast<unsigned>(bytes[seed_size - 1]) << 8U;
  if (sum != expected || (bytes[0] & 0xF8U) != seed_prefix) refuse_credentials(message);
  kind_ = static_cast<unsigned char>((bytes[0] & 7U) << 5U | (bytes[1] & 0xF8U) >> 3U);
  std::ranges::copy(bytes.subspan(2, key_size), seed_.begin());
}

nkey::~nkey() { OPENSSL_cleanse(seed_.data(), seed_.size()); }

std::string nkey::public_key() const {
  std::array<unsigned char, 1 + key_size + 2> bytes{};
  bytes[0] = kind_;
  std::size_t size = key_size;
  const key_ptr key = private_key(seed_);
  if (EVP_PKEY_get_raw_public_key(key.get(), &bytes[1], &size) != 1) throw std::bad_alloc();
  const std::uint16_t sum = checksum(byte_span(bytes).first(1 + key_size));
  bytes[1 + key_size] = static_cast<unsigned char>(sum & 0xFFU);
  bytes[2 + key_size] = static_cast<unsigned char>(sum >> 8U);
  return encode<5>(bytes, base32_letters);
}

std::string nkey::sign(std::string_view text) const {
  const key_ptr key = private_key(seed_);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  std::array<unsigned char, 64> signature{};
  std::size_t size = signature.size();
  const bool is_signed =
      context != nullptr &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestSign(context.get(), signature.data(), &size,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
  if (!is_signed) throw std::bad_alloc();
  return encode<6>(byte_span(signature).first(size), base64_letters);
}

credentials parse_credentials(std::string_view text) {
  const std::optional<std::string> jwt = line_below(text, "NATS USER JWT");
  const std::optional<std::string> seed = line_below(text, "USER NKEY SEED");
  if (!jwt || !seed) refuse_credentials("gyre::nats::client: the credentials lack a JWT or a seed");
  return {*jwt, *seed};
}

}  // namespace gyre::nats::detail
