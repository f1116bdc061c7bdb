// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/uuid.hpp>

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <system_error>

namespace gyre::postgres {
namespace {

constexpr std::size_t text_size = 36;

constexpr bool is_separator(std::size_t index) noexcept {
  return index == 8 || index == 13 || index == 18 || index == 23;
}

}  // namespace

uuid::uuid(std::string_view text) {
  const std::optional<uuid> result = parse(text);
  if (!result) {
    throw std::invalid_argument("gyre::postgres::uuid: \"" + std::string(text.substr(0, 64)) +
                                "\" is none, such as 0191d5a4-3c5e-4b1f-8d2a-6f0f6f1f2f3f");
  }
  *this = *result;
}

std::optional<uuid> uuid::parse(std::string_view text) noexcept {
  if (text.size() != text_size) return std::nullopt;
  uuid result;
  std::size_t count = 0;
  for (std::size_t index = 0; index < text_size;) {
    if (is_separator(index)) {
      if (text[index++] != '-') return std::nullopt;
      continue;
    }
    std::uint8_t byte = 0;
    const char* const digits = text.data() + index;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
    result.bytes_[count++] = std::byte{byte};
    index += 2;
  }
  return result;
}

std::string uuid::to_string() const {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  text.reserve(text_size);
  for (const std::byte byte : bytes_) {
    if (is_separator(text.size())) text += '-';
    text += digits[std::to_integer<unsigned>(byte) >> 4U];
    text += digits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

}  // namespace gyre::postgres
