// SPDX-License-Identifier: Apache-2.0
// parse_decimal: parses a whole text as a decimal number.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace gyre::detail {

/// Parses all of `text` as a decimal number: digits, after a minus sign if T is signed and the
/// number is negative. Returns std::nullopt for any other text, and for a number that T cannot
/// hold.
template <std::integral T>
std::optional<T> parse_decimal(std::string_view text) noexcept {
  T number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace gyre::detail
