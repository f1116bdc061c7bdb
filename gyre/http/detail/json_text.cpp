// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/json_text.hpp>

namespace gyre::http::detail {

void append_json_string(std::string& output, std::string_view text) {
  static constexpr std::string_view digits = "0123456789abcdef";
  output += '"';
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    if (each == '"' || each == '\\') {
      (output += '\\') += each;
    } else if (byte < 0x20) {
      ((output += "\\u00") += digits[byte >> 4U]) += digits[byte & 15U];
    } else {
      output += each;
    }
  }
  output += '"';
}

}  // namespace gyre::http::detail
