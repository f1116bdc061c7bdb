// SPDX-License-Identifier: Apache-2.0
// parse_number: reads numbers in addresses and configuration files.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace gyre::net::detail {

/// The decimal number that `text` is, digits and nothing else; nothing if it is none, or too large.
template <std::unsigned_integral T>
std::optional<T> parse_number(std::string_view text) noexcept {
  T number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace gyre::net::detail
