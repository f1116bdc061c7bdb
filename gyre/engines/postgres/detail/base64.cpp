// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/base64.hpp>

#include <openssl/evp.h>

namespace gyre::postgres::detail {

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL adds a zero byte
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  const std::size_t last = text.find_last_not_of('=');
  const std::size_t padding = text.size() - (last == std::string_view::npos ? 0 : last + 1);
  // OpenSSL drops white space, and takes more padding than there can be.
  if (text.size() % 4 != 0 || padding > 2) return std::nullopt;
  if (text.substr(0, text.size() - padding).find_first_of(" \t\r\n-=") != std::string_view::npos) {
    return std::nullopt;
  }
  std::vector<std::byte> bytes(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0 || static_cast<std::size_t>(size) != bytes.size()) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace gyre::postgres::detail
