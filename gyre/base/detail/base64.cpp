// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/base64.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace gyre::detail {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t not_base64 = 64;

constexpr std::array<std::uint8_t, 256> make_character_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(not_base64);
  for (std::size_t index = 0; index < alphabet.size(); ++index) {
    values[static_cast<unsigned char>(alphabet[index])] = static_cast<std::uint8_t>(index);
  }
  return values;
}

constexpr std::array<std::uint8_t, 256> character_values = make_character_values();

}  // namespace

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<std::size_t>(3, bytes.size()))) {
    unsigned group = 0;
    for (std::size_t i = 0; i != 3; ++i) {
      group = group << 8 | (i < bytes.size() ? std::to_integer<unsigned>(bytes[i]) : 0U);
    }
    for (std::size_t i = 0; i != 4; ++i) {
      text += i <= bytes.size() ? alphabet[group >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  const std::size_t size = text.size();
  if (text.ends_with('=')) text.remove_suffix(1);
  if (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(size / 4 * 3);
  std::uint32_t group = 0;
  unsigned bits = 0;
  for (const char character : text) {
    const std::uint8_t value = character_values[static_cast<unsigned char>(character)];
    if (value == not_base64) return std::nullopt;
    group = group << 6 | value;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<char>(group >> bits & 0xff));
  }
  if ((group & ((1U << bits) - 1)) != 0) return std::nullopt;  // the remaining bits must be zero
  return bytes;
}

}  // namespace gyre::detail
