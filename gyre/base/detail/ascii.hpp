// SPDX-License-Identifier: Apache-2.0
// Tests and conversions of ASCII characters, without a locale; other bytes are neither digits nor
// letters.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace gyre::detail {

constexpr bool is_digit(char each) noexcept { return each >= '0' && each <= '9'; }
constexpr char lower(char each) noexcept {
  return each >= 'A' && each <= 'Z' ? static_cast<char>(each | 0x20) : each;
}
constexpr bool is_blank(char each) noexcept { return each == ' ' || each == '\t'; }
constexpr bool is_letter(char each) noexcept { return lower(each) >= 'a' && lower(each) <= 'z'; }

/// The value of a hexadecimal digit; -1 for another character.
constexpr int hex_value(char each) noexcept {
  if (is_digit(each)) return each - '0';
  const char small = lower(each);
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
