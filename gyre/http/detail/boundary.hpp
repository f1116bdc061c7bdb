// SPDX-License-Identifier: Apache-2.0
// is_boundary: whether a text may separate the parts of a multipart body (RFC 2046, 5.1.1).
#pragma once

#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace gyre::http::detail {

constexpr bool is_boundary(std::string_view text) noexcept {
  constexpr std::size_t longest = 70;
  if (text.empty() || text.size() > longest || text.back() == ' ') return false;
  return std::ranges::all_of(text, [](char each) {
    return is(is_alpha, each) || is_digit(each) || std::string_view("'()+_,-./:=? ").contains(each);
  });
}

}  // namespace gyre::http::detail
