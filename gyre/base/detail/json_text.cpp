// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/json_text.hpp>

#include <gyre/base/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>

namespace gyre::detail {

void append_json_string(std::string& output, std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  output += '"';
  while (!text.empty()) {
    const std::size_t size = utf8_character_size(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (size == 0) {
      output += "\xef\xbf\xbd";
    } else if (byte < 0x20) {
      ((output += "\\u00") += digits[byte >> 4U]) += digits[byte & 15U];
    } else {
      if (text[0] == '"' || text[0] == '\\') output += '\\';
      output += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  output += '"';
}

}  // namespace gyre::detail
