// SPDX-License-Identifier: Apache-2.0
// character_class, is, all_are: character classes of HTTP (RFC 9110, 5.6) and of URLs (RFC 3986),
// in ASCII and independent of the locale. trim, take_until, take_while: words in field values.
#pragma once

#include <gyre/base/detail/ascii.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gyre::http::detail {

using gyre::detail::equals_ignoring_case;
using gyre::detail::hex_value;
using gyre::detail::is_blank;
using gyre::detail::is_digit;
using gyre::detail::is_letter;
using gyre::detail::lower;
using gyre::detail::to_lower;
using gyre::detail::trim;

enum character_class : std::uint16_t {
  in_token = 1,       // tchar
  is_unreserved = 2,  // letters, digits, - . _ ~
  in_path = 4,        // pchar without '%', and '/'
  in_query = 8,       // the characters of in_path, and '?'
  in_user_info = 16,  // unreserved, sub-delims and ':', without '%'
  in_scheme = 32,     // letters, digits, + - .
  in_name = 64,       // letters, digits, - _ .
  in_target = 128,    // visible ASCII characters except '#'
  in_host = 256,      // reg-name (RFC 3986, 3.2.2) except ',', which would join two hosts
  is_hex = 512,       // hexadecimal digits
};

consteval std::array<std::uint16_t, 256> make_character_classes() {
  std::array<std::uint16_t, 256> classes{};
  const auto add = [&](std::string_view characters, unsigned bits) {
    for (const char character : characters) {
      const auto position = static_cast<unsigned char>(character);
      classes[position] = static_cast<std::uint16_t>(classes[position] | bits);
    }
  };
  constexpr unsigned all_classes = in_token | is_unreserved | in_path | in_query | in_user_info |
                                   in_scheme | in_name | in_target | in_host;
  add("ABCDEFabcdef", all_classes | is_hex);
  add("GHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz", all_classes);
  add("0123456789", all_classes | is_hex);
  add("!#$%&'*+-.^_`|~", in_token);
  add("-._~", is_unreserved | in_path | in_query | in_user_info);
  add("!$&'()*+,;=:", in_path | in_query | in_user_info);
  add("@/", in_path | in_query);
  add("?", in_query);
  add("+-.", in_scheme);
  add("-_.", in_name);
  add("!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}~", in_target);
  add("-._~%!$&'()*+;=", in_host);
  return classes;
}

inline constexpr std::array<std::uint16_t, 256> character_classes = make_character_classes();

constexpr bool is(character_class characters, char character) noexcept {
  return (character_classes[static_cast<unsigned char>(character)] & characters) != 0;
}
constexpr bool all_are(character_class characters, std::string_view text) noexcept {
  for (const char character : text) {
    if (!is(characters, character)) return false;
  }
  return true;
}
/// Whether `character` may stand in a field value: visible, blank, or beyond ASCII.
constexpr bool is_value_character(char character) noexcept {
  const auto byte = static_cast<unsigned char>(character);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}
/// Whether `text` is a token, as a method and the name of a field or parameter must be.
constexpr bool is_token(std::string_view text) noexcept {
  return !text.empty() && all_are(in_token, text);
}

/// Whether the texts are equal, ignoring case. `right` must have no upper-case letters.
constexpr bool equals_lower(std::string_view left, std::string_view right) noexcept {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (lower(left[i]) != right[i]) return false;
  }
  return true;
}

/// Removes and returns the part of `text` before the first `delimiter`, or all of it if there is
/// none. Removes that delimiter, too.
constexpr std::string_view take_until(std::string_view& text, char delimiter) noexcept {
  const std::size_t position = text.find(delimiter);
  const std::string_view front = text.substr(0, position);
  text.remove_prefix(position == std::string_view::npos ? text.size() : position + 1);
  return front;
}

/// Whether a comma-separated list, such as the value of Connection, contains `word`, ignoring case.
constexpr bool list_has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    if (equals_ignoring_case(trim(take_until(list, ',')), word)) return true;
  }
  return false;
}

/// Removes and returns the longest prefix of `text` that consists of `characters`.
constexpr std::string_view take_while(character_class characters, std::string_view& text) noexcept {
  std::size_t size = 0;
  while (size < text.size() && is(characters, text[size])) ++size;
  const std::string_view front = text.substr(0, size);
  text.remove_prefix(size);
  return front;
}

}  // namespace gyre::http::detail
