// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/printable_text.hpp>

#include <gyre/base/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>

namespace gyre::detail {
namespace {

// Whether `character` is a control character of ASCII or of ISO 6429's second set (U+0080 to
// U+009F), which terminals obey as well.
bool is_control(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable_text(std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = utf8_character_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    if (character == "\n") {
      printable += "\\n";
    } else if (size == 0 || is_control(character)) {
      for (const char code_unit : character) {
        const auto byte = static_cast<unsigned char>(code_unit);
        ((printable += "\\x") += digits[byte >> 4U]) += digits[byte & 15U];
      }
    } else {
      if (character == "\"" || character == "\\") printable += '\\';
      printable += character;
    }
    text.remove_prefix(character.size());
  }
  return printable;
}

}  // namespace gyre::detail
