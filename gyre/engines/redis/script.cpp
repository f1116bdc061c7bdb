// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/script.hpp>

#include <openssl/evp.h>

#include <array>
#include <system_error>
#include <utility>

namespace gyre::redis {
namespace {

std::string sha1_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), bytes.data(), &size, EVP_sha1(), nullptr) != 1) {
    throw std::system_error(std::make_error_code(std::errc::operation_not_supported),
                            "gyre::redis::script: OpenSSL refuses SHA-1");
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string digits_text;
  for (unsigned i = 0; i < size; ++i) {
    digits_text += digits[bytes[i] >> 4];
    digits_text += digits[bytes[i] & 15];
  }
  return digits_text;
}

}  // namespace

script::script(std::string text) : text_(std::move(text)), hash_(sha1_of(text_)) {}

}  // namespace gyre::redis
