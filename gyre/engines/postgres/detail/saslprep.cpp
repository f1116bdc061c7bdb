// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/saslprep.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace gyre::postgres::detail {
namespace {

struct character {
  char32_t code;
  std::size_t size;  // the bytes of the character
};

// Decodes the character at the front of `text`, which is not empty; std::nullopt if it is not UTF-8
// (RFC 3629).
std::optional<character> decode(std::string_view text) noexcept {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  if (byte(0) < 0x80) return character{byte(0), 1};
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < size) return std::nullopt;
  char32_t code = byte(0) & (0xffU >> (size + 1));
  for (std::size_t index = 1; index < size; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte(index) & 0x3fU);
  }
  const bool is_too_long = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (is_too_long || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return std::nullopt;
  return character{code, size};
}

// Whether the character is a space other than ASCII's: RFC 3454, table C.1.2.
bool is_space(char32_t code) noexcept {
  return code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200b) || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

// Whether SASLprep removes the character: RFC 3454, table B.1, without U+200B, which counts as a
// space.
bool is_mapped_to_nothing(char32_t code) noexcept {
  return code == 0xad || code == 0x34f || code == 0x1806 || (code >= 0x180b && code <= 0x180d) ||
         code == 0x200c || code == 0x200d || code == 0x2060 || (code >= 0xfe00 && code <= 0xfe0f) ||
         code == 0xfeff;
}

}  // namespace

std::string saslprep(std::string_view password) {
  std::string result;
  result.reserve(password.size());
  for (std::string_view rest = password; !rest.empty();) {
    const std::optional<character> character = decode(rest);
    if (!character) return std::string(password);
    if (is_space(character->code)) {
      result.push_back(' ');
    } else if (!is_mapped_to_nothing(character->code)) {
      result.append(rest.substr(0, character->size));
    }
    rest.remove_prefix(character->size);
  }
  return result;
}

}  // namespace gyre::postgres::detail
