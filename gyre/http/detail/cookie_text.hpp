// SPDX-License-Identifier: Apache-2.0
// is_cookie_value, prefix_of, parse_cookie_date: values, prefixes and dates of cookies (RFC
// 6265bis).
#pragma once

#include <gyre/http/detail/characters.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre::http::detail {

constexpr bool is_cookie_character(char character) noexcept {
  return character > ' ' && character < '\x7f' && character != '"' && character != ',' &&
         character != ';' && character != '\\';
}

/// Whether `text` consists of cookie-octets, which may be enclosed in quotes.
constexpr bool is_cookie_value(std::string_view text) noexcept {
  if (text.size() > 1 && text.starts_with('"') && text.ends_with('"')) {
    text = text.substr(1, text.size() - 2);
  }
  for (const char character : text) {
    if (!is_cookie_character(character)) return false;
  }
  return true;
}

enum class cookie_prefix : std::uint8_t { none, secure, host };

/// Returns the prefix of a cookie's name, ignoring case, as browsers do.
constexpr cookie_prefix prefix_of(std::string_view name) noexcept {
  constexpr std::string_view secure = "__Secure-", host = "__Host-";
  if (equals_ignoring_case(name.substr(0, secure.size()), secure)) return cookie_prefix::secure;
  if (equals_ignoring_case(name.substr(0, host.size()), host)) return cookie_prefix::host;
  return cookie_prefix::none;
}

/// Parses the value of an Expires attribute, in the many forms that servers write (RFC 6265,
/// 5.1.1).
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_cookie_date(
    std::string_view text) noexcept;

}  // namespace gyre::http::detail
