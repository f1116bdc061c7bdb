// SPDX-License-Identifier: Apache-2.0
// is_boundary, random_boundary: separators of the parts of a multipart body (RFC 2046, 5.1.1).
#pragma once

#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace gyre::http::detail {

constexpr bool is_boundary(std::string_view text) noexcept {
  constexpr std::size_t max_boundary_size = 70;
  if (text.empty() || text.size() > max_boundary_size || text.back() == ' ') return false;
  return std::ranges::all_of(text, [](char character) {
    return is_letter(character) || is_digit(character) ||
           std::string_view("'()+_,-./:=? ").contains(character);
  });
}

/// Returns a boundary with 128 random bits, so that no sender of data can guess it.
std::string random_boundary();

}  // namespace gyre::http::detail
