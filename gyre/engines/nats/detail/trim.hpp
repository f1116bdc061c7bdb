// SPDX-License-Identifier: Apache-2.0
// trim: a text without the blanks around it.
#pragma once

#include <cstddef>
#include <string_view>

namespace gyre::nats::detail {

/// The text without spaces and tabs at its ends.
constexpr std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace gyre::nats::detail
