// SPDX-License-Identifier: Apache-2.0
// utf8_character_size: the size of the first character of a text in UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <string_view>

namespace gyre::detail {

/// Returns the size of the character with which `text` begins; 0 if it begins with none, which also
/// holds for an empty text.
constexpr std::size_t utf8_character_size(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  const unsigned char second = byte(1);
  const bool is_valid = !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f) &&
                        !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f);
  return is_valid ? size : 0;
}

}  // namespace gyre::detail
