// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/json.hpp>

#include <array>
#include <charconv>
#include <cmath>

namespace lab {

std::string json_quote(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\t': quoted += "\\t"; break;
      case '\r': quoted += "\\r"; break;
      default:
        if (byte < 0x20) {
          quoted += "\\u00";
          quoted += hex[byte >> 4];
          quoted += hex[byte & 0xf];
        } else {
          quoted += c;
        }
    }
  }
  return quoted += '"';
}

json_object& json_object::add(std::string_view key, std::string_view value) {
  return add_raw(key, json_quote(value));
}

json_object& json_object::add(std::string_view key, const json_object& value) {
  return add_raw(key, value.text());
}

json_object& json_object::add(std::string_view key, double value) {
  if (!std::isfinite(value)) return add_raw(key, "null");
  std::array<char, 32> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return add_raw(key, std::string_view(digits.data(), written.ptr));
}

json_object& json_object::add_raw(std::string_view key, std::string_view value) {
  if (!fields_.empty()) fields_ += ',';
  fields_.append(json_quote(key)).append(":").append(value);
  return *this;
}

}  // namespace lab
