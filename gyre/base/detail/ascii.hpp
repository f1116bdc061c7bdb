// SPDX-License-Identifier: Apache-2.0
// Tests and conversions of ASCII characters, without a locale; other bytes are neither digits nor
// letters.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace gyre::detail {

constexpr bool is_digit(char character) noexcept { return character >= '0' && character <= '9'; }
constexpr char lower(char character) noexcept {
  return character >= 'A' && character <= 'Z' ? static_cast<char>(character | 0x20) : character;
}
constexpr bool is_blank(char character) noexcept { return character == ' ' || character == '\t'; }
constexpr bool is_letter(char character) noexcept {
  return lower(character) >= 'a' && lower(character) <= 'z';
}

/// The value of a hexadecimal digit; -1 for another character.
constexpr int hex_value(char character) noexcept {
  if (is_digit(character)) return character - '0';
  const char small = lower(character);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

/// The text without the blanks around it.
constexpr std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

inline std::string to_lower(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), lower);
  return small;
}

constexpr bool equals_ignoring_case(std::string_view left, std::string_view right) noexcept {
  return std::ranges::equal(left, right, {}, lower, lower);
}

}  // namespace gyre::detail
