// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/work/detail/printable_text.hpp>

#include <algorithm>

namespace gyre::work::detail {
namespace {

/// Returns the size of the UTF-8 character at the beginning of `text`; 0 if the bytes are invalid.
std::size_t character_size(std::string_view text) noexcept {
  const auto byte = [text](std::size_t n) { return static_cast<unsigned char>(text[n]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first != 0 ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t n = 1; n != size; ++n) {
    if ((byte(n) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and numbers beyond Unicode are invalid.
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
    return 0;
  }
  return size;
}

}  // namespace

std::string printable_text(std::string_view text, std::size_t max_size) {
  std::string result;
  result.reserve(std::min(text.size(), max_size));
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view character = size != 0 ? text.substr(0, size) : "?";
    if (result.size() + character.size() > max_size) break;
    result += character;
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

}  // namespace gyre::work::detail
