// SPDX-License-Identifier: Apache-2.0
// parse_quality: quality values in field values (RFC 9110, 12.4.2), in thousandths.
#pragma once

#include <gyre/http/detail/characters.hpp>

#include <cstddef>
#include <optional>
#include <string_view>

namespace gyre::http::detail {

/// Parses a quality value: "0.5" becomes 500, and "1" becomes 1000. Returns nothing for other
/// texts, such as "2", ".5" and "0.1234".
constexpr std::optional<unsigned> parse_quality(std::string_view text) noexcept {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  unsigned value = text[0] == '1' ? 1000 : 0;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  unsigned place = 100;
  for (std::size_t i = 2; i < text.size(); ++i, place /= 10) {
    if (!is_digit(text[i])) return std::nullopt;
    value += static_cast<unsigned>(text[i] - '0') * place;
  }
  if (value > 1000) return std::nullopt;
  return value;
}

}  // namespace gyre::http::detail
