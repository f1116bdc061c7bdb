// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/redirect_location.hpp>

#include <gyre/http/detail/characters.hpp>

#include <algorithm>
#include <cstddef>

namespace gyre::http::detail {
namespace {

// Returns the size of "scheme://server" or "//server" at the beginning of `reference`; 0 without a
// server.
std::size_t size_before_path(std::string_view reference) noexcept {
  const std::size_t slashes = reference.find("//");
  if (slashes == reference.npos) return 0;
  const bool has_scheme = slashes != 0 && reference[slashes - 1] == ':' &&
                          all_are(in_scheme, reference.substr(0, slashes - 1));
  if (slashes != 0 && !has_scheme) return 0;
  return std::min(reference.find_first_of("/?#", slashes + 2), reference.size());
}

}  // namespace

std::string redirect_reference(std::string_view location, std::string_view fragment) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const std::size_t begin = size_before_path(location);
  std::string text(location.substr(0, begin));
  bool in_fragment = false;
  for (std::size_t index = begin; index != location.size(); ++index) {
    const char character = location[index];
    const bool begins_fragment = character == '#' && !in_fragment;
    const bool is_escape = character == '%' && location.size() - index > 2 &&
                           is(is_hex, location[index + 1]) && is(is_hex, location[index + 2]);
    if (begins_fragment || is_escape || is(in_query, character)) {
      text += character;
    } else {
      const auto byte = static_cast<unsigned char>(character);
      text.append({'%', digits[byte >> 4U], digits[byte & 15U]});
    }
    in_fragment = in_fragment || begins_fragment;
  }
  if (!in_fragment && !fragment.empty()) text.append("#").append(fragment);
  return text;
}

}  // namespace gyre::http::detail
