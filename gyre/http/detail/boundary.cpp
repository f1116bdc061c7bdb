// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/boundary.hpp>

#include <random>

namespace gyre::http::detail {

std::string random_boundary() {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::size_t words = 4;
  std::random_device device;
  std::string boundary = "----gyre";  // dashes, so that it is found fast and looks like browsers'
  for (std::size_t word = 0; word < words; ++word) {
    for (unsigned bits = device(), digit = 0; digit < 8; ++digit, bits >>= 4U) {
      boundary += digits[bits & 15U];
    }
  }
  return boundary;
}

}  // namespace gyre::http::detail
