// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/boundary.hpp>

#include <gyre/base/detail/system_random.hpp>

#include <array>
#include <cstddef>

namespace gyre::http::detail {

std::string random_boundary() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::array<std::byte, 16> random_bytes{};
  gyre::detail::require_random(random_bytes, "gyre::http: a boundary");
  std::string boundary = "----gyre";  // boundaries of browsers begin with dashes, too
  for (const std::byte byte : random_bytes) {
    boundary += digits[std::to_integer<std::size_t>(byte >> 4U)];
    boundary += digits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return boundary;
}

}  // namespace gyre::http::detail
