// SPDX-License-Identifier: Apache-2.0
// Writer of the JSON object that a contender prints. The Python side reads it.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace lab {

/// A JSON string literal: `text` in quotes, with control characters, quotes and backslashes
/// escaped. Bytes from 0x80 up are passed on as they are, so UTF-8 stays UTF-8.
std::string json_quote(std::string_view text);

/// A JSON object whose fields keep the order in which they were added. Repeated keys are not
/// detected.
class json_object {
 public:
  json_object& add(std::string_view key, std::string_view value);
  json_object& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  json_object& add(std::string_view key, const json_object& value);

  /// Writes the shortest text that reads back as the same number. Infinities and NaN, which JSON
  /// lacks, become null.
  json_object& add(std::string_view key, double value);

  template <std::same_as<bool> Bool>
  json_object& add(std::string_view key, Bool value) {
    return add_raw(key, value ? "true" : "false");
  }

  template <std::integral Int>
    requires(!std::same_as<Int, bool>)
  json_object& add(std::string_view key, Int value) {
    return add_raw(key, std::to_string(value));
  }

  /// The object as JSON text on one line.
  std::string text() const { return "{" + fields_ + "}"; }

 private:
  json_object& add_raw(std::string_view key, std::string_view value);

  std::string fields_;
};

}  // namespace lab
